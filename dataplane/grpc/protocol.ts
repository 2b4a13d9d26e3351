/** Messages and methods of the service `cni.CniDataplane` (C§4.6), as protocol buffers number them. */
import protobuf from "protobufjs";

const DEFINITION = `
  syntax = "proto3";
  package cni;

  message AddRequest {
    string interface_name = 1;
    string netns = 2;
    string desired_host_interface_name = 3;
    ContainerSettings settings = 4;
    repeated IPConfig container_ips = 5;
    repeated string container_routes = 6;
    WorkloadIDs workload = 7;
    map<string, string> dataplane_options = 8;
  }
  message ContainerSettings {
    bool allow_ip_forwarding = 1;
    int32 mtu = 2;
  }
  message IPConfig {
    string address = 1;
    string gateway = 2;
  }
  message WorkloadIDs {
    string name = 1;
    string namespace = 2;
    map<string, string> labels = 3;
    map<string, string> annotations = 4;
    string endpoint = 5;
    string node = 6;
    string orchestrator = 7;
    string pod = 8;
    repeated Port ports = 9;
  }
  message Port {
    string name = 1;
    string protocol = 2;
    uint32 port = 3;
    uint32 host_port = 4;
    string host_ip = 5;
  }
  message AddReply {
    bool successful = 1;
    string error_message = 2;
    string host_interface_name = 3;
    string container_mac = 4;
  }
  message DelRequest {
    string interface_name = 1;
    string netns = 2;
    map<string, string> dataplane_options = 3;
  }
  message DelReply {
    bool successful = 1;
    string error_message = 2;
  }
`;

const { root: ROOT } = protobuf.parse(DEFINITION, { keepCase: true });

/** What both replies have; a field that was not sent is empty. */
export interface Reply {
  readonly successful: boolean;
  readonly errorMessage: string;
  readonly hostInterfaceName: string;
  readonly containerMac: string;
}

export interface Method {
  readonly path: string;
  readonly encode: (request: Readonly<Record<string, unknown>>) => Buffer;
  /** @throws Error when the bytes are no such message */
  readonly decode: (bytes: Buffer) => Reply;
}

export const ADD = method("Add");
export const DEL = method("Del");

function method(name: string): Method {
  const [request, reply] = [ROOT.lookupType(`cni.${name}Request`), ROOT.lookupType(`cni.${name}Reply`)];
  return {
    path: `/cni.CniDataplane/${name}`,
    encode: (fields) => Buffer.from(request.encode(request.fromObject(fields)).finish()),
    decode(bytes) {
      const fields: Readonly<Record<string, unknown>> = reply.toObject(reply.decode(bytes));
      return {
        successful: fields.successful === true,
        errorMessage: textOf(fields.error_message),
        hostInterfaceName: textOf(fields.host_interface_name),
        containerMac: textOf(fields.container_mac),
      };
    },
  };
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}
