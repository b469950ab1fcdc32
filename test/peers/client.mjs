// A client made of the TypeScript SDK, driven by lines of JSON on stdin; what happens is told in lines of JSON on stdout.
//
//   node client.mjs ws URL | http URL | stdio COMMAND…      the key of a URL is in PEER_KEY
//
//   in:  {"call":1,"method":"session/new","params":{}}   {"notify":"session/cancel","params":{}}   {"answer":"7","outcome":{}}
//   out: {"answered":1,"result":{}} {"answered":1,"error":{}} {"update":{}} {"question":"7","params":{}} {"settled":"7"} {"closed":""}
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { Readable, Writable } from "node:stream";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const installed = createRequire(process.env.PEER_MODULES + "/");
const load = (name) => import(pathToFileURL(installed.resolve(name)).href);
const acp = await load("@agentclientprotocol/sdk");
const tell = (event) => process.stdout.write(JSON.stringify(event) + "\n");

const [kind, target, ...rest] = process.argv.slice(2);
const headers = { "X-Secret-Key": process.env.PEER_KEY ?? "" };
let stream;
switch (kind) {
  case "ws": {
    const { createWebSocketStream } = await load("@agentclientprotocol/sdk/experimental/ws-client");
    const { default: WebSocket } = await load("ws");
    stream = createWebSocketStream(target, { headers, WebSocket });
    break;
  }
  case "http": {
    const { createHttpStream } = await load("@agentclientprotocol/sdk/experimental/http-client");
    stream = createHttpStream(target, { headers });
    break;
  }
  case "stdio": {
    const agent = spawn(target, rest, { stdio: ["pipe", "pipe", "inherit"] });
    stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
    break;
  }
}

const open = new Map();
let questions = 0;
const app = acp
  .client({ name: "peer" })
  .onNotification("session/update", (context) => tell({ update: context.params }))
  .onRequest("session/request_permission", (context) => {
    const question = String(++questions);
    return new Promise((resolve, reject) => {
      open.set(question, resolve);
      context.signal.addEventListener("abort", () => {
        open.delete(question);
        tell({ settled: question });
        reject(acp.RequestError.requestCancelled());
      });
      tell({ question, params: context.params });
    });
  });
const connection = app.connect(stream);
const { agent } = connection;
connection.closed.then(() => tell({ closed: "" }), (error) => tell({ closed: String(error) }));

for await (const line of createInterface({ input: process.stdin })) {
  const said = JSON.parse(line);
  if (said.answer !== undefined) {
    open.get(said.answer)?.({ outcome: said.outcome });
    open.delete(said.answer);
  } else if (said.notify !== undefined) {
    await agent.notify(said.notify, said.params);
  } else {
    agent.request(said.method, said.params).then(
      (result) => tell({ answered: said.call, result: result ?? {} }),
      (error) => tell({ answered: said.call, error: { code: error?.code ?? 0, message: error?.message ?? String(error), data: error?.data } }),
    );
  }
}
connection.close();
process.exit(0);
