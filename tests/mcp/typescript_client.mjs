// The official TypeScript clients under remote control: JSON lines say what to do, JSON lines tell what came of it.
// node typescript_client.mjs MODE URL, with the modes
//   sdk     @modelcontextprotocol/sdk, the 1.x line: the handshake
//   client  @modelcontextprotocol/client, the 2.x line, by itself: the newest version first
//   stdio   the same over `postroom mcp`
// The token comes from POSTROOM_TOKEN. The operations are described in tests/mcp/peers.py.
import { createInterface } from "node:readline";

const [mode, url] = process.argv.slice(2);
const token = process.env.POSTROOM_TOKEN;
const info = { name: "postroom-tests", version: "1" };

async function connected() {
  if (mode === "sdk") {
    const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
    const { StreamableHTTPClientTransport } = await import("@modelcontextprotocol/sdk/client/streamableHttp.js");
    const client = new Client(info);
    await client.connect(new StreamableHTTPClientTransport(endpoint(), authorised()));
    return [client, (params, options) => client.callTool(params, undefined, options)];
  }
  const { Client, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
  const client = new Client(info, { versionNegotiation: { mode: "auto" } });
  if (mode === "stdio") {
    const { StdioClientTransport } = await import("@modelcontextprotocol/client/stdio");
    const args = ["-m", "postroom", "mcp", "--url", url];
    await client.connect(new StdioClientTransport({ command: process.env.PYTHON, args, env: { POSTROOM_TOKEN: token } }));
  } else {
    await client.connect(new StreamableHTTPClientTransport(endpoint(), authorised()));
  }
  return [client, (params, options) => client.callTool(params, options)];
}

const endpoint = () => new URL(`${url}/mcp`);
const authorised = () => ({ requestInit: { headers: { Authorization: `Bearer ${token}` } } });

const [client, callTool] = await connected();
let started, controller;

async function call({ tool, arguments: args }, options) {
  try {
    const result = await callTool({ name: tool, arguments: args }, options);
    return {
      isError: result.isError ?? false,
      structured: result.structuredContent ?? null,
      text: result.content.map((block) => block.text).join(""),
    };
  } catch (error) {
    return { error: { code: error.code ?? null, message: error.message } };
  }
}

const operations = {
  connect: () => ({
    version: client.getNegotiatedProtocolVersion?.() ?? client.transport.protocolVersion,
    server: client.getServerVersion().name,
    instructions: client.getInstructions(),
  }),
  list: () => client.listTools(),
  call,
  start(asked) {
    controller = new AbortController();
    started = call(asked, { signal: controller.signal });
    return {};
  },
  finish: () => started,
  async cancel() {
    controller.abort();
    await started;
    return {};
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line);
  console.log(JSON.stringify(await operations[asked.op](asked)));
}
await client.close();
