"""A gRPC client that knows nothing of this repository: what it calls, it has learnt from the server's reflection.

`python grpc_client.py ADDRESS` reads a JSON array of pulls from standard input, `[[token, {…}], …]`, and prints one
JSON object: what reflection, health and the pulls have answered. A program of its own, because the official packages of
reflection and health define the same messages as those of grpclib, and one process can have them only once.
"""

import base64
import json
import sys
from typing import Any

import grpc
from google.protobuf import json_format
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

CALL_SECONDS = 10
SERVICE = "postroom.v1.Inbox"


def main(address: str) -> None:
    """Do what standard input says."""
    pulls = json.load(sys.stdin)
    with grpc.insecure_channel(address) as channel:
        reflected = ProtoReflectionDescriptorDatabase(channel)
        method = DescriptorPool(reflected).FindServiceByName(SERVICE).FindMethodByName("PullInbox")
        health = health_pb2_grpc.HealthStub(channel).Check(
            health_pb2.HealthCheckRequest(), timeout=CALL_SECONDS
        )
        answers = [pull(channel, method, token, arguments) for token, arguments in pulls]
        told = {
            "services": sorted(reflected.get_services()),
            "health": health_pb2.HealthCheckResponse.ServingStatus.Name(health.status),
            "answers": answers,
        }
    print(json.dumps(told))


def pull(channel: grpc.Channel, method: Any, token: str | None, arguments: dict[str, Any]) -> dict[str, Any]:
    """Pull once; `diff_json` comes as text."""
    request = GetMessageClass(method.input_type)(**arguments)
    call = channel.unary_unary(
        f"/{SERVICE}/{method.name}",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=GetMessageClass(method.output_type).FromString,
    )
    metadata = [("authorization", f"Bearer {token}")] if token else []
    try:
        reply = call(request, metadata=metadata, timeout=CALL_SECONDS)
    except grpc.RpcError as error:
        return {"status": error.code().name, "details": error.details()}
    page = json_format.MessageToDict(
        reply, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    for item in page["items"]:
        item["diff_json"] = base64.b64decode(item["diff_json"]).decode()
    return {"status": "OK", **page}


if __name__ == "__main__":
    main(sys.argv[1])
