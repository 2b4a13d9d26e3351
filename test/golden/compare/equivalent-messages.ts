/**
 * When two error texts say the same thing. Calico prints Go's type names and library texts; ours name the key or the object and must
 * keep Calico's recognisable fragments. An entry gives the fragments that both sides must have for one each.
 */
import { ERROR_CATALOGUE } from "../../../lib/errors/error-catalogue.ts";

interface Equivalent {
  readonly recorded: RegExp;
  /** May use $1, $2 …: what the groups of `recorded` caught, which our text must hold too. */
  readonly ours: string;
}

const EQUIVALENTS: readonly Equivalent[] = [
  // Wrong type of a key: Go names its struct field and type, ours the key and the value ("array" is "list").
  {
    recorded: /^failed to load netconf: json: cannot unmarshal array into Go struct field (?:NetConf)?\.([\w.]+) of type .+$/,
    ours: "^failed to load netconf: $1 must be .+, not a list",
  },
  {
    recorded: /^failed to load netconf: json: cannot unmarshal (\w+)(?: \S+)? into Go struct field (?:NetConf)?\.([\w.]+) of type .+$/,
    ours: String.raw`^failed to load netconf: $2(\[\d+\])* must be .+, not .*$1`,
  },
  {
    recorded: /^error unmarshall network config: json: cannot unmarshal (\w+) into Go value of type .+$/,
    ours: "^error unmarshall network config: expected an object, found an? $1$",
  },
  // The selector's parser says only what it expected; ours adds whose selector, and where.
  { recorded: /^(expected string)$/, ours: `^nodeSelector of pool ".+": selector ".+", position \\d+: $1$` },
  // Ours name the plugin that was run.
  { recorded: /^(netplugin failed with no error message: exit status \d+)$/, ours: String.raw`^plugin \S+ \((ADD|DEL)\): $1$` },
  { recorded: /^failed to unmarshal raw result: (.+)$/, ours: String.raw`^failed to unmarshal raw result of plugin \S+: $1` },
  // Ours quote the file instead of Go's strconv.
  {
    recorded: /^failed to read MTU file: strconv\.Atoi: parsing "(.*)": invalid syntax$/,
    ours: String.raw`^failed to read MTU file: \S+ holds "$1"`,
  },
  // Routes are named as ip(8) prints them instead of as a Go struct.
  {
    recorded:
      /^(error adding host side routes for interface: (\w+), error: route \()ifindex .*Dst: (\S+), .* already exists for an interface other than '.*Iface: (\w+)\)$/,
    ours: "^$1.*$3.*already exists for an interface other than '$2': .*$4",
  },
  // Debian's host-local is older than the recorder's: its Go names the struct field without the last part.
  {
    recorded: /^(json: cannot unmarshal number into Go struct field IPAMConfig\.ipam\.routes)\.dst (of type string)$/,
    ours: "^$1 $2$",
  },
  // How the API server was reached: ours name the method and the address with its port apart, and say how often they tried.
  {
    recorded: /^(error getting ClusterInformation: )Get "(\S+)": dial tcp (\S+):(\d+): connect: connection refused$/,
    ours: "^$1.*GET $2: dial tcp $3 port $4: connect: connection refused",
  },
  {
    recorded:
      /^(error getting ClusterInformation: )Get "(\S+)": (tls: failed to verify certificate: )x509: (certificate signed by unknown authority)(?: .+)?$/,
    ours: "^$1.*GET $2: $3$4",
  },
  {
    recorded: /^((?:error creating calico client: )?invalid configuration: no configuration has been provided), try setting .+$/,
    ours: "^$1: neither .+ is set",
  },
  // Each YAML reader has its own words for what it did not expect.
  { recorded: /^((?:error creating calico client: )?error loading config file ".+": yaml: )line 1: .+$/, ours: "^$1" },
  // "with error:" is followed by the API server's own text, which says the same again.
  { recorded: /^(error getting ClusterInformation: resource does not exist: ClusterInformation\(default\)) with error: .+$/, ours: "^$1" },
  // The Kubernetes datastore has endpoints of pods only: ours names the two arguments that would say which.
  {
    recorded:
      /^resource does not exist: WorkloadEndpoint\(.+\) with error: malformed WorkloadEndpoint name - (unable to determine Pod name)$/,
    ours: "CNI_ARGS lacks K8S_POD_NAME or K8S_POD_NAMESPACE, .*: $1$",
  },
  { recorded: /^(pods ".+" not found)$/, ours: "^$1 in namespace \\S+" },
  { recorded: /^failed to upgrade IPAM database: (failed to upgrade IPAM database: .+)$/, ours: "^$1" },
  { recorded: /^(invalid URL set for ReadinessGates):(\S+) Error:parse .+$/, ours: '^$1: "$2"' },
  {
    recorded: /^json: cannot unmarshal number into Go value of type string$/,
    ours: "^expected a JSON list of strings, not a number in it \\(annotation ",
  },
];

export function areEquivalent(recorded: string, ours: string): boolean {
  if (recorded === ours || addsTo(recorded.trimEnd(), ours)) return true;
  return EQUIVALENTS.some((each) => {
    const found = each.recorded.exec(recorded);
    if (found === null) return false;
    const wanted = each.ours.replace(/\$(\d)/g, (_, group: string) => escapeRegExp(found[Number(group)] ?? ""));
    return new RegExp(wanted, "s").test(ours);
  });
}

function escapeRegExp(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}

/** Whether `ours` is the recorded text with more facts behind it: ": the object", " (line 1, column 2)", ", …". */
function addsTo(recorded: string, ours: string): boolean {
  return recorded !== "" && ours.startsWith(recorded) && /^(: | \(|, |; )/.test(ours.slice(recorded.length));
}

/** `details` as Calico would have printed them: our word and next step, which stand behind, are taken off (C§10). */
export function withoutNextStep(details: string): string {
  const words = Object.keys(ERROR_CATALOGUE).join("|");
  return details.replace(new RegExp(`(?:^|[;.,]?\\s+)(?:${words}): .*$`, "s"), "");
}
