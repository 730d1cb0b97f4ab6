// The function nodes of a flow, one behind the other, as Node-RED runs them: reads
// {"flow": path, "nodes": [names], "messages": [...]} and prints, for each message, what comes out at
// the end, or the error. Payloads are in hexadecimal.
"use strict";
const fs = require("fs");

const asked = JSON.parse(fs.readFileSync(0, "utf8"));
const flow = JSON.parse(fs.readFileSync(asked.flow, "utf8"));
const stored = {};
const context = { get: (name) => stored[name], set: (name, value) => { stored[name] = value; } };
const functions = asked.nodes.map((name) => {
    const node = flow.find((each) => each.type === "function" && each.name === name);
    return new Function("msg", "node", "flow", "context", node.func);
});

function through(messages, run) {
    const found = [];
    for (const message of messages) {
        const out = run(message, {}, context, context);
        const first = Array.isArray(out) ? out[0] : out;
        found.push(...(Array.isArray(first) ? first : first ? [first] : []));
    }
    return found;
}

for (const message of asked.messages) {
    message.payload = Buffer.from(message.payload, "hex");
    try {
        console.log(JSON.stringify({ out: functions.reduce(through, [message]) }));
    } catch (error) {
        console.log(JSON.stringify({ error: String(error) }));
    }
}
