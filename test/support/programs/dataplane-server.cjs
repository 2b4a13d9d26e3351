/**
 * A gRPC dataplane under Node: `node dataplane-server.cjs TARGET LOG`. It writes each request to LOG, one JSON line each, and answers as the
 * option `answer` of the request wants; without it, well.
 */
const { appendFileSync } = require("node:fs");
const { join } = require("node:path");
const grpc = require("@grpc/grpc-js");
const protoLoader = require("@grpc/proto-loader");

const [, , target, log] = process.argv;
const { cni } = grpc.loadPackageDefinition(
  protoLoader.loadSync(join(__dirname, "dataplane-server.proto"), { keepCase: true, defaults: true }),
);
const { service } = cni.CniDataplane;

const GOOD = { successful: true, host_interface_name: "tap7", container_mac: "02:00:5E:10:00:07" };
const ANSWERS = {
  good: GOOD,
  plain: { ...GOOD, host_interface_name: "" },
  refuse: { successful: false, error_message: "no room in the switch" },
  "bad-mac": { ...GOOD, container_mac: "not a MAC" },
  "no-mac": { ...GOOD, container_mac: "" },
  "multicast-mac": { ...GOOD, container_mac: "01:00:5e:00:00:01" },
  "bad-name": { ...GOOD, host_interface_name: "../../etc/passwd" },
  huge: { ...GOOD, error_message: "x".repeat(1024 * 1024) },
  garbage: Buffer.from("ffffffffffffffffff", "hex"),
};

function handler(method) {
  return (call, done) => {
    const { request } = call;
    appendFileSync(log, `${JSON.stringify({ method, request })}\n`);
    const options = request.dataplane_options;
    const answer = (method === "Add" ? options.answer : options.del_answer) ?? "good";
    if (answer === "error") done({ code: grpc.status.PERMISSION_DENIED, details: "not for you" });
    else if (answer !== "hang") done(null, ANSWERS[answer]);
  };
}

/** Bytes are sent as they are. */
function withBytes(definition) {
  return { ...definition, responseSerialize: (value) => (Buffer.isBuffer(value) ? value : definition.responseSerialize(value)) };
}

const server = new grpc.Server();
server.addService({ Add: withBytes(service.Add), Del: withBytes(service.Del) }, { Add: handler("Add"), Del: handler("Del") });
server.bindAsync(target, grpc.ServerCredentials.createInsecure(), (error) => {
  if (error) throw error;
  appendFileSync(log, "");
  process.stdout.write("ready\n");
});
