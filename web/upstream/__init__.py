"""Every work-around of the libraries below us, in one package: symptom, remedy, and the test that keeps it.

Versions: Hypercorn 0.18, h11 0.16, Quart 0.22 with quart-trio 0.12, Quart 0.23 with quart-trio 0.13, trio
0.35. Traps are numbered as in the field notes; S17 is the engineering study's. The tests are in
`tests/live`.

- Trap 2: Quart 0.23 does not stop a chunked body at its limit. `web/limits.py` reads every body before Quart
  does. `test_a_chunked_body_is_stopped_at_the_limit_before_quart_sees_it`.
- Trap 3: quart-trio cancels the task in which Hypercorn recycles the connection, which then never closes.
  `shield_last_send`. `test_connection_close_is_kept_at_once`, `test_requests_leave_no_descriptor_open`.
- Trap 4, S17: Hypercorn shields `send_all` without a deadline; a client that stops reading hangs its stream
  and the shutdown. `listen` (TCP_USER_TIMEOUT) and `Connections.watch`.
  `test_a_reader_that_stops_is_evicted`, `test_a_stalled_reader_does_not_delay_the_shutdown`.
- Trap 5: a crash in Quart's own nursery leaves HTTP answering. Nothing runs there; `postroom/server.py` nests
  the actors around us. `test_nothing_runs_in_the_nursery_of_quart`.
- Trap 15: `request.path` is decoded, `//` answers 308. `web/routes.py` matches raw paths and Quart sees a
  template. `test_raw_paths_decide_the_route`.
- Trap 16: Content-Length together with Transfer-Encoding is accepted. `web/limits.py`.
  `test_a_body_framed_twice_is_refused`.
- Trap 18: `read_timeout` also ends a client that waits for its answer. It is not set; bodies have a deadline
  of their own, and so have heads, which `Connections.watch` keeps. `test_a_slow_body_gets_408`,
  `test_a_slow_head_is_closed`.
- Trap 20: `hypercorn.trio.serve` returns normally on KeyboardInterrupt. `web/serve.py` holds the accept loop.
  `test_a_signal_ends_the_server_in_order`.
- Hypercorn hands a body over through a queue of ten pieces, and the end of the stream through the same: an
  early answer to a longer body deadlocks. `Incoming.swallow` empties it.
  `test_a_refused_upload_can_read_the_refusal`.
- Hypercorn answers a broken request without a body and resets the connection. `Http1._send_error_response`.
  `test_a_head_over_every_limit_gets_431`.
- Bytes after a request whose answer says `Connection: close` make Hypercorn close in the middle of that
  answer. `Http1._refuse`. `test_bytes_after_the_last_request_do_not_cut_its_answer`.
- A reader that waits for the end of an answer, because another request has followed, is not told when that answer
  can never end: a stream whose client has gone leaves its connection open for ever. `Http1.handle`.
  `test_a_stray_byte_hides_the_hang_up_until_the_next_heartbeat`.
- h11 calls a line break after a last body, or in front of a request, an error of the protocol: the sender gets
  400 for what is stored. `Http1.handle`, `Http1._skip_line_breaks`.
  `test_a_line_break_after_the_last_body_does_not_spoil_its_answer`,
  `test_line_breaks_between_two_requests_are_passed_over`.
- Hypercorn answers `Expect: 100-continue` with 100 before anything is checked: a sender that would be refused sends its
  whole body first. `Incoming.next` asks for it. `test_a_sender_that_asks_first_is_refused_without_being_told_to_go_on`.
- The end of what a client sends is reported as the end of the client, and quart-trio cancels the handler: one that
  has closed its sending side hears nothing of what was done for it. `web/quartapp.py`, `web.replies.send_streamed`.
  `test_a_client_that_closes_its_sending_side_gets_its_answer`.
- `trio.serve_listeners` prints a traceback ten times a second while there is no descriptor for another connection.
  `accept_connections`. `test_a_shortage_of_descriptors_is_told_once_and_passes`.
- An exception that escapes one connection ends the server. `Connection.run`.
  `test_a_bug_in_one_connection_does_not_end_the_others`.
- Hypercorn writes an answer in three pieces and starts and ends a timer task for each request; one write and
  no task do. `web/upstream/exchange.py`, `Connection.protocol_send`. `test_a_small_answer_is_one_write`.
- An answer goes through an object for each message, two state machines, and h11's look at each of its headers, which
  together cost more than its write. `web/upstream/exchange.py`.
  `test_an_answer_is_the_one_that_hypercorn_would_have_sent`.
- The memory channel between a connection and its handler costs a pass through the scheduler for every message, five for
  a small request. `web/upstream/receiving.py`. `test_messages_come_in_order_and_nobody_gives_way_for_them`.
- A send costs a lock, a shield and a pass through the scheduler, also when the kernel takes all of it at once.
  `Connection._write_now`. `test_what_two_send_at_once_over_one_socket_is_never_mixed`.
"""
