// Shared by all tabs of the browser, which may hold only six connections to one server: the one stream of events.

import { Stream } from "./live-stream.js";

const tabs = new Map();
const latest = new Map();
let state = null;
const stream = new Stream(tell);

function tell(message) {
  if (message.key) latest.set(message.key, message);
  else state = message;
  for (const [port, keys] of tabs) if (!message.key || keys.includes(message.key)) port.postMessage(message);
}

function follow() {
  const wanted = new Set([...tabs.values()].flat());
  for (const key of latest.keys()) if (!wanted.has(key)) latest.delete(key);
  stream.follow([...wanted]);
}

onconnect = (event) => {
  const [port] = event.ports;
  port.onmessage = ({ data }) => {
    if (!data.keys.length) tabs.delete(port);
    else tabs.set(port, data.keys);
    follow();
    for (const key of data.keys) if (latest.has(key)) port.postMessage(latest.get(key));
    if (state && data.keys.length) port.postMessage(state);
  };
};
