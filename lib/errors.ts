/**
 * What goes wrong, said so that a person can act on it: the catalogue of stable words, and the one class that carries them.
 *
 * A word never changes once released; `docs/errors.md` lists them all and a test holds the two together.
 * `code` is the number CNI wants (C§10): 999 wherever Calico's plugins raise a plain error, so that callers see what they always saw.
 */
export const ERRORS = {
  "version-unsupported": { code: 1, next: "set cniVersion to one of the supported versions" },
  "operation-unsupported": { code: 1, next: "raise cniVersion in the network configuration, or do not call this operation" },
  "environment-missing": { code: 4, next: "the runtime must set the variables that the message names" },
  "environment-invalid": { code: 4, next: "correct the variable that the message names" },
  "command-unknown": { code: 4, next: "CNI_COMMAND is one of ADD, DEL, CHECK, STATUS, GC, VERSION" },
  "stdin-unreadable": { code: 5, next: "the runtime must pass the network configuration on standard input" },
  "netconf-not-json": { code: 6, next: "look at the line and column that the message gives, or run the file through any JSON checker" },
  "network-name-invalid": { code: 7, next: "name must start with a letter or digit and hold only letters, digits, '_', '.' and '-'" },
  "netns-own": { code: 8, next: "pass the container's network namespace in CNI_NETNS, or set CNI_NETNS_OVERRIDE=1 to mean this one" },
  "netconf-type": { code: 999, next: "correct the key that the message names; docs/configuration.md has every key's type" },
  "netconf-value": { code: 999, next: "correct the key that the message names; docs/configuration.md has every key's values" },
  "datastore-damaged": {
    code: 999,
    next: "put a backup in its place, or move the file away and add the containers anew; see docs/datastores.md",
  },
  "datastore-foreign": { code: 999, next: "set datastore_path to a file that no other program uses" },
  "datastore-newer": { code: 999, next: "run the tortie that wrote it, or a newer one" },
  "datastore-unavailable": {
    code: 999,
    next: "make the datastore that the message names reachable, readable and writable, then try again",
  },
  "datastore-object-invalid": { code: 999, next: "correct the stored object that the message names" },
  "datastore-unauthorized": {
    code: 999,
    next: "give the plugin's account the right that the message names, or renew the credentials that it names",
  },
  "datastore-object-missing": { code: 999, next: "make the object that the message names, or stop referring to it" },
  "addresses-exhausted": { code: 999, next: "add a pool, or find addresses to release with: tortiectl ipam show --blocks" },
  "pool-conflict": { code: 999, next: "put ipam.pools back as it was, or give the new pool another name and a CIDR of its own" },
  "pool-missing": { code: 999, next: 'set ipam.pools in the network configuration, for instance [{"cidr": "10.244.0.0/16"}]' },
  "delegate-not-found": { code: 999, next: "install that plugin in one of the directories of CNI_PATH, or correct ipam.type" },
  "delegate-failed": { code: 999, next: "read what that plugin wrote on standard error, which the runtime's log has" },
  "delegate-timeout": { code: 999, next: "find out what that plugin waits for; it was stopped" },
  "delegate-output": { code: 999, next: "that plugin does not follow the CNI specification: correct or replace it" },
  "result-invalid": { code: 999, next: "correct or replace the plugin that printed this result" },
  "arguments-invalid": { code: 999, next: "correct CNI_ARGS: KEY=VALUE pairs joined by ';'; docs/configuration.md has the keys" },
  "addresses-requested-invalid": { code: 999, next: "ask for at most one address of each family, without other text" },
  "mac-invalid": { code: 999, next: "give a unicast address of six octets, for instance 02:00:5e:10:00:01" },
  "annotation-invalid": { code: 999, next: "correct the annotation that the message names, then let the pod be started again" },
  "feature-disabled": {
    code: 999,
    next: "set the switch in the section feature_control of the network configuration, or remove the annotation",
  },
  "identity-invalid": { code: 999, next: "change the name that the message gives; docs/configuration.md#names has the rules" },
  "interface-prefix-invalid": { code: 999, next: "set FELIX_INTERFACEPREFIX to at most four letters, digits, '_', '.' or '-'" },
  "nodename-file-missing": { code: 999, next: "start the node agent that writes it, or set nodename_file_optional to true" },
  "mtu-file-invalid": { code: 999, next: "let the node agent write the file again, or remove it and set mtu" },
  "datastore-unsupported": { code: 999, next: "set datastore_type to kubernetes or local" },
  "conflist-unreadable": { code: 999, next: "give the path of a network configuration list that this user may read" },
  "conflist-invalid": { code: 999, next: "correct the key that the message names in that file" },
  "option-invalid": { code: 999, next: "correct that option; --help shows every option" },
  "attachment-exists": { code: 999, next: "detach it first with del, or attach another --ifname or --container-id" },
  "attachment-unknown": { code: 999, next: "give the --container-id, --ifname and --cache-dir that add was given" },
  "check-disabled": { code: 999, next: "set disableCheck to false to have the plugins asked" },
  "cache-damaged": { code: 999, next: "remove that file, or give another --cache-dir" },
  "cache-unwritable": { code: 999, next: "give a --cache-dir that this user may write, on a file system with room" },
  "netns-missing": { code: 999, next: "check that the sandbox still exists; the runtime passes its path in CNI_NETNS" },
  "netns-invalid": {
    code: 999,
    next: "CNI_NETNS must be the path of a network namespace, for instance /run/netns/NAME or /proc/PID/ns/net",
  },
  "mtu-invalid": { code: 999, next: "correct mtu in the configuration, or the MTU file of the node" },
  "queues-invalid": { code: 999, next: "correct num_queues in the configuration" },
  "interface-exists": { code: 999, next: "remove the interface from the sandbox, or choose another CNI_IFNAME" },
  "link-failed": { code: 999, next: "check the message of the kernel, CAP_NET_ADMIN, and the mtu and num_queues of the configuration" },
  "link-delete-timeout": {
    code: 999,
    next: "look for processes in state D and kernel messages about unregister_netdevice, then repeat the operation",
  },
  "address-failed": { code: 999, next: "check the message of the kernel; IPv6 needs an MTU of at least 1280 and a kernel with IPv6" },
  "route-conflict": { code: 999, next: "find out who owns the conflicting route, and remove it or the pool that overlaps with it" },
  "route-failed": { code: 999, next: "check the message of the kernel and the routes of both sides with: ip route" },
  "sysctl-failed": { code: 999, next: "make /proc/sys writable for the plugin, and check that the kernel has the file" },
  "netlink-failed": { code: 999, next: "check the message of the kernel and that the plugin has CAP_NET_ADMIN" },
  "nat-failed": { code: 999, next: "check that the kernel has nf_tables with nat and masquerade, or set natOutgoing to false" },
  "readiness-gate-closed": { code: 999, next: "find out why the URL of readiness_gates does not answer with a status of 200 to 399" },
  "container-unknown": { code: 3, next: "add the container first, or pass the prevResult of its ADD" },
  "cluster-not-ready": {
    code: 999,
    next: "wait for the upgrade or migration that paused the cluster; ClusterInformation default says datastoreReady: true when it is over",
  },
  "status-unavailable": { code: 50, next: "correct what the message names; no container can be added until then" },
  "status-impaired": {
    code: 51,
    next: "look at the node agent whose readiness_gates the message names: it serves the containers that run, too",
  },
  "datastore-probe-failed": { code: 100, next: "correct what stands before this word; the plugins cannot work without their datastore" },
  "ipam-no-addresses": { code: 999, next: "let ipam give at least one address: a family switched on, a pool with room" },
  "pod-cidr-missing": { code: 999, next: "give a CIDR in ipam.subnet or ipam.ranges, or use a network on the Kubernetes datastore" },
  "endpoint-contended": { code: 999, next: "call the operation again; find out what adds and deletes the same container over and over" },
  "neighbour-failed": { code: 999, next: "read what the kernel says, in the message" },
  "check-failed": { code: 999, next: "delete the attachment and add it anew" },
  "pool-unknown": { code: 999, next: "list enabled pools only: tortiectl ipam show names them" },
  "pool-entry-invalid": { code: 999, next: "give a pool's CIDR or name; tortiectl ipam show lists them" },
  "pool-family": { code: 999, next: "put IPv4 pools into ipv4_pools and IPv6 pools into ipv6_pools" },
  "pool-none": { code: 999, next: "make or enable a pool of that family; tortiectl ipam show lists what is there" },
  "pool-use": { code: 999, next: "add the use to allowedUses of the pool, or take another pool" },
  "pool-unselected": {
    code: 999,
    next: "compare nodeSelector, namespaceSelector and assignmentMode of the pools with the labels of the node and namespace",
  },
  "selector-syntax": { code: 999, next: "correct the selector at the position that the message gives" },
  "block-limit": { code: 999, next: "raise maxBlocksPerHost, or make pools with larger blocks" },
  "block-unavailable": { code: 999, next: "set autoAllocateBlocks to true, or give this node a block" },
  "block-not-empty": { code: 999, next: "release the addresses of the block first; tortiectl ipam show --blocks lists them" },
  "block-claimed": { code: 999, next: "try again: another node has taken the block meanwhile" },
  "claim-too-small": { code: 999, next: "give a CIDR that holds at least one block of its pool" },
  "address-outside-pools": { code: 999, next: "ask for an address inside an enabled pool; tortiectl ipam show lists them" },
  "address-taken": { code: 999, next: "ask for another address, or release this one; after a release its cooldown must pass" },
  "address-not-assigned": { code: 999, next: "look who holds the address with: tortiectl ipam show --ip" },
  "affinity-strict": { code: 999, next: "ask for an address of this node's own blocks, or set strictAffinity to false" },
  "handle-limit": { code: 999, next: "ask for the address that this workload holds already, or release it first" },
  "release-mismatch": { code: 999, next: "look who holds the address now; it was given to somebody else meanwhile" },
  "owner-conflict": { code: 999, next: "read the owners of the address again; somebody changed them meanwhile" },
  "vm-unknown": { code: 999, next: "check that the pod's VirtualMachineInstance and VirtualMachine exist and are those that own the pod" },
  "vm-migration-disabled": { code: 999, next: "set kubeVirtVMAddressPersistence to Enabled, or do not migrate virtual machines" },
  "vm-addresses-missing": { code: 999, next: "let the pod that the virtual machine runs in get its addresses first, then migrate again" },
  "upgrade-directory": { code: 999, next: "move the file that the message names out of host-local's directory, then try again" },
  "datastore-contention": { code: 999, next: "try again; if it stays, find out what keeps writing the object that the message names" },
  "kubeconfig-missing": { code: 999, next: "set kubernetes.kubeconfig to the file that Calico's installer or your own wrote" },
  "kubeconfig-unreadable": { code: 999, next: "give the path of a file that is there and that this user may read" },
  "kubeconfig-invalid": {
    code: 999,
    next: "correct the key that the message names; kubectl --kubeconfig FILE version tells whether it works",
  },
  "credentials-failed": { code: 999, next: "run the exec command of the kubeconfig by hand and see what it says" },
  internal: { code: 999, next: "this is a defect of tortie: please report it with the log of this operation" },
} as const satisfies Record<string, { readonly code: number; readonly next: string }>;

/** A stable word of the catalogue. */
export type ErrorWord = keyof typeof ERRORS;

/** An error of Tortie's own: a stable word, what failed on which object (`message`), and what to do next. */
export class TortieError extends Error {
  readonly word: ErrorWord;
  readonly code: number;
  readonly next: string;
  /** Extra facts for the `details` member of a CNI error, put before the word (C§10). */
  readonly details: string | undefined;

  constructor(word: ErrorWord, message: string, options: { cause?: unknown; next?: string; details?: string } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = "TortieError";
    this.word = word;
    this.code = ERRORS[word].code;
    this.next = options.next ?? ERRORS[word].next;
    this.details = options.details;
  }
}

/** An error object that another plugin printed, passed on unchanged (C§10, "child's code"). */
export class ForeignCniError extends Error {
  readonly code: number;
  readonly details: string | undefined;

  constructor(code: number, message: string, details?: string) {
    super(message);
    this.name = "ForeignCniError";
    this.code = code;
    this.details = details;
  }
}

/** Text of anything that was thrown, causes left out. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
