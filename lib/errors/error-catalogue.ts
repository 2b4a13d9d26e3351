/**
 * Lists what can go wrong: a stable word for each, the number that CNI wants, and what to do next.
 *
 * A word never changes once released; `docs/reference/errors.md` lists them all and a test holds the two together.
 */

interface Entry {
  readonly code: number;
  readonly next: string;
}

/** Calico's plugins raise a plain error there, and callers see what they always saw (C§10). */
const PLAIN = 999;

/** A next step alone has the code 999. */
export const ERROR_CATALOGUE = {
  "version-unsupported": { code: 1, next: "set cniVersion to one of the supported versions" },
  "operation-unsupported": { code: 1, next: "raise cniVersion in the network configuration, or do not call this operation" },
  "environment-missing": { code: 4, next: "the runtime must set the variables that the message names" },
  "environment-invalid": { code: 4, next: "correct the variable that the message names" },
  "command-unknown": { code: 4, next: "CNI_COMMAND is one of ADD, DEL, CHECK, STATUS, GC, VERSION" },
  "stdin-unreadable": { code: 5, next: "the runtime must pass the network configuration on standard input" },
  "stdout-unwritable": { code: 5, next: "the runtime must read the plugin's standard output, and the device behind it must have room" },
  "netconf-not-json": { code: 6, next: "look at the line and column that the message gives, or run the file through any JSON checker" },
  "network-name-invalid": { code: 7, next: "name must start with a letter or digit and hold only letters, digits, '_', '.' and '-'" },
  "attachments-missing": { code: 7, next: "the runtime must list the attachments it knows in cni.dev/valid-attachments" },
  "netns-own": { code: 8, next: "pass the container's network namespace in CNI_NETNS, or set CNI_NETNS_OVERRIDE=1 to mean this one" },
  "netconf-type": "correct the key that the message names; docs/reference/configuration.md has every key's type",
  "netconf-value": "correct the key that the message names; docs/reference/configuration.md has every key's values",
  "datastore-damaged": "put a backup in its place, or move the file away and add the containers again; see docs/explanation/datastores.md",
  "datastore-foreign": "set datastore_path to a file that no other program uses",
  "datastore-newer": "run the tortie that wrote it, or a newer one",
  "datastore-unavailable": "make the datastore that the message names reachable, readable and writable, then try again",
  "datastore-object-invalid": "correct the stored object that the message names",
  "datastore-unauthorized": "renew the credentials that the message names; who writes the kubeconfig also renews its token",
  "datastore-forbidden": "give the account the right that the message names; docs/reference/rights.md lists what each account needs",
  "datastore-untrusted":
    "put the authority that has signed the server's certificate into the CA file of the kubeconfig or of etcd; a replaced file is read again",
  "datastore-answer-foreign":
    "find out what answers at the URL that the message names: a proxy, a load balancer, or another server than the configuration means",
  "datastore-object-missing": "make the object that the message names, or stop referring to it",
  "addresses-exhausted": "add a pool, or find addresses to release with: tortiectl ipam show --blocks",
  "pool-conflict": "put ipam.pools back as it was, or give the new pool another name and a CIDR of its own",
  "pool-missing": 'set ipam.pools in the network configuration, for instance [{"cidr": "10.244.0.0/16"}]',
  "install-settings": "correct the environment variable that the message names; docs/reference/installer.md has them all",
  "install-template":
    "correct the template in CNI_NETWORK_CONFIG or CNI_NETWORK_CONFIG_FILE; docs/reference/installer.md has its variables",
  "install-token":
    "give the installer's account the right to create serviceaccounts/token for the plugins' account, and check the API server's address",
  "install-failed": "make the directory that the message names writable, with room on its disk, or mount another one; then install again",
  "uninstall-failed": "let the file that the message names be removed, then uninstall again: what is left is still known",
  "delegate-not-found":
    "install that plugin in one of the directories of CNI_PATH, where tortie-node sees it too if the list requires an agent, or correct ipam.type",
  "delegate-failed": "read what that plugin wrote on standard error, which the runtime's log has",
  "delegate-timeout": "find out what that plugin waits for; it was stopped",
  "delegate-output": "that plugin does not follow the CNI specification: correct or replace it",
  "plugin-crashed": "that program has a defect, not the list: take another version of it, or leave it out of the list",
  "plugin-outdated": { code: 1, next: "install a newer version of that plugin, or give the list a cniVersion that all its plugins know" },
  "result-invalid": "correct or replace the plugin that printed this result",
  "arguments-invalid": "correct CNI_ARGS: KEY=VALUE pairs joined by ';'; docs/reference/configuration.md has the keys",
  "addresses-requested-invalid": "ask for at most one address of each family, without other text",
  "mac-invalid": "give a unicast address of six octets, for instance 02:00:5e:10:00:01",
  "annotation-invalid": "correct the annotation that the message names, then let the pod be started again",
  "feature-disabled": "set the switch in the section feature_control of the network configuration, or remove the annotation",
  "platform-unsupported":
    "allow the runtime memory that is written and executed, and use a host with glibc; docs/reference/requirements.md lists what Tortie needs",
  "runtime-variable": "unset these variables in the container runtime's environment",
  "identity-invalid": "change the name that the message gives; docs/reference/configuration.md#names has the rules",
  "interface-prefix-invalid": "set FELIX_INTERFACEPREFIX to at most four letters, digits, '_', '.' or '-'",
  "nodename-file-missing": "start the node agent that writes it, or set nodename_file_optional to true",
  "nodename-invalid": "write the node's name, alone, into the file that nodename_file names, or set nodename",
  "mtu-file-invalid": "let the node agent write the file again, or remove it and set mtu",
  "descriptors-exhausted": {
    code: 11,
    next: "raise the limit of open files: LimitNOFILE= of the unit of tortie-node or of the container runtime, or fs.file-max of the host",
  },
  "disk-full": { code: 5, next: "make room on the file system that the message names: bytes (df PATH), inodes (df -i PATH) or the quota" },
  "file-system-read-only": { code: 5, next: "let the file system that the message names be written: mount -o remount,rw PATH" },
  "privilege-missing": "run this as root (sudo); for root itself, or in a container, give it CAP_NET_ADMIN and CAP_SYS_ADMIN",
  "conflist-unreadable": "give the path of a network configuration list that this user may read",
  "conflist-invalid": "correct the key that the message names in that file",
  "subcommand-unknown": "give one of the commands that --help lists",
  "argument-missing": "give what is missing; --help shows the usage",
  "option-invalid": "correct that option; --help shows every option",
  "attachment-exists": "detach it first with del, or attach another --ifname or --container-id",
  "attachment-unknown": "give the --container-id, --ifname and --cache-dir that add was given",
  "check-disabled": "set disableCheck to false to have the plugins asked",
  "cache-damaged": "remove that file, or give another --cache-dir",
  "cache-unwritable": "give a --cache-dir that this user may write, on a file system with room",
  "netns-missing": "check that the sandbox still exists; the runtime passes its path in CNI_NETNS",
  "netns-invalid": "CNI_NETNS must be the path of a network namespace, for instance /run/netns/NAME or /proc/PID/ns/net",
  "mtu-invalid": "correct mtu in the configuration, or the MTU file of the node",
  "queues-invalid": "correct num_queues in the configuration",
  "interface-exists":
    "choose another CNI_IFNAME, or for an interface of the host another container id; or remove the attachment that has the interface",
  "link-failed": "check the message of the kernel, CAP_NET_ADMIN, and the mtu and num_queues of the configuration",
  "link-delete-timeout": "look for processes in state D and kernel messages about unregister_netdevice, then repeat the operation",
  "address-failed": "check the message of the kernel; IPv6 needs an MTU of at least 1280 and a kernel with IPv6",
  "route-conflict": "find out who owns the conflicting route, and remove it or the pool that overlaps with it",
  "route-failed": "check the message of the kernel and the routes of both sides with: ip route",
  "sysctl-failed": "make /proc/sys writable for the plugin, and check that the kernel has the file",
  "netlink-failed": "check the message of the kernel and that the plugin has CAP_NET_ADMIN",
  "tunnel-failed": "remove the interface that the message names if no program needs it, or give this host the address that it names",
  "nat-failed": "check that the kernel has nf_tables with nat, masquerade and conntrack",
  "policy-failed": "check that the kernel has nf_tables for inet with conntrack, sets, limits and nfnetlink_log",
  "readiness-gate-closed": "find out why the URL of readiness_gates does not answer with a status of 200 to 399",
  "container-unknown": { code: 3, next: "add the container first, or pass the prevResult of its ADD" },
  "cluster-not-ready":
    "wait for the upgrade or migration that paused the cluster; ClusterInformation default says datastoreReady: true when it is over",
  "status-unavailable": { code: 50, next: "correct what the message names; no container can be added until then" },
  "datastore-probe-failed": { code: 100, next: "correct what stands before this word; the plugins cannot work without their datastore" },
  "ipam-no-addresses": "let ipam give at least one address: a family switched on, a pool with room",
  "node-cidr-missing": {
    code: 11,
    next: "start tortie-node, and give the node a range: spec.podCIDRs of its Node object, or --ipv4-range and --ipv6-range",
  },
  "family-disabled": "ask for the other family, or give the node a range of this one",
  "range-overlap": "give one of the two nodes another range: spec.podCIDRs of its Node object, or --ipv4-range",
  "pod-cidr-missing": "give a CIDR in ipam.subnet or ipam.ranges, or use a network on the Kubernetes datastore",
  "endpoint-contended": "call the operation again; find out what adds and deletes the same container over and over",
  "neighbour-failed": "read what the kernel says, in the message",
  "check-failed": "delete the attachment and add it again",
  "pool-unknown": "list enabled pools only: tortiectl ipam show names them",
  "pool-entry-invalid": "give a pool's CIDR or name; tortiectl ipam show lists them",
  "pool-family": "put IPv4 pools into ipv4_pools and IPv6 pools into ipv6_pools",
  "pool-none": "make or enable a pool of that family; tortiectl ipam show lists what is there",
  "pool-use": "add the use to allowedUses of the pool, or take another pool",
  "pool-unselected": "compare nodeSelector, namespaceSelector and assignmentMode of the pools with the labels of the node and namespace",
  "selector-syntax": "correct the selector at the position that the message gives",
  "block-limit": "raise maxBlocksPerHost, or make pools with larger blocks",
  "block-unavailable": "set autoAllocateBlocks to true, or give this node a block",
  "block-not-empty": "release the addresses of the block first; tortiectl ipam show --blocks lists them",
  "blocks-overlap":
    "compare the pool's blockSize with its blocks: tortiectl ipam show --blocks; give it back its block size, or release the addresses of the other block",
  "block-claimed": "try again: another node has taken the block meanwhile",
  "address-outside-pools": "ask for an address inside an enabled pool; tortiectl ipam show lists them",
  "address-taken": "ask for another address, or release this one; after a release its cooldown must pass",
  "address-excluded": "ask for another address; the message says what this one is kept for",
  "address-lost": "restart the pod: its address was released while it ran; docs/how-to/troubleshoot.md says by whom",
  "address-not-assigned": "look who holds the address with: tortiectl ipam show --ip",
  "affinity-strict": "ask for an address of this node's own blocks, or set strictAffinity to false",
  "handle-limit": "ask for the address that this workload holds already, or release it first",
  "release-mismatch": "look who holds the address now; it was given to somebody else meanwhile",
  "owner-conflict": "read the owners of the address again; somebody changed them meanwhile",
  "vm-unknown": "check that the pod's VirtualMachineInstance and VirtualMachine exist and are those that own the pod",
  "vm-migration-disabled": "set kubeVirtVMAddressPersistence to Enabled, or do not migrate virtual machines",
  "vm-addresses-missing": "let the pod that the virtual machine runs in get its addresses first, then migrate again",
  "host-local-addresses": "drain the node, remove the directory, and start again: docs/how-to/use-host-local.md",
  "operation-interrupted": { code: 11, next: "call the operation again; what it had made was taken back" },
  "node-lock-timeout": { code: 11, next: "find out what the process that the message names waits for; nothing was changed" },
  "datastore-contention": "try again; if it stays, find out what keeps writing the object that the message names",
  "kubeconfig-missing": "set kubernetes.kubeconfig to the file that Calico's installer or your own wrote",
  "kubeconfig-unreadable": "give the path of a file that is there and that this user may read",
  "kubeconfig-invalid": "correct the key that the message names; kubectl --kubeconfig FILE version tells whether it works",
  "credentials-failed": "run the exec command of the kubeconfig by hand and see what it says",
  "exec-forbidden":
    "give the account get and create of pods/exec in the agents' namespace (docs/how-to/kubectl-tortie.md), or run tortiectl on the node",
  "pod-unscheduled": "see why the scheduler finds no node: kubectl describe pod NAME",
  "node-needed": "run tortiectl on the node, or in its agent's pod: kubectl -n kube-system exec POD -- tortiectl --help",
  "agent-unreachable": {
    code: 11,
    next: "look at the agent of this node: kubectl -n kube-system get pods -l k8s-app=tortie-node -o wide (DaemonSet), or systemctl status tortie-node",
  },
  "policy-not-ready": {
    code: 11,
    next: "call ADD again; tortiectl node status says what the agent waits for, and --policy off of tortie-node turns policy off",
  },
  "agent-timeout": { code: 11, next: "call the operation again; the log of tortie-node says what it waited for" },
  "attachment-locked": { code: 11, next: "find out what the process that the message names waits for; nothing was changed" },
  "queued-delete-failed": { code: 11, next: "correct what the message names; the DEL is repeated, and the ADD may be, until it succeeds" },
  "delete-queue-full": { code: 11, next: "start tortie-node, which carries out what waits in its delete queue" },
  "attachment-deleted": {
    code: 11,
    next: "call ADD again if the container is still wanted; a DEL came while it was being added, and nothing is left",
  },
  "call-invalid": { code: 4, next: "make the call as docs/reference/api.md says; the message names the member" },
  "caller-gone": { code: 11, next: "call the operation again; what it had made was taken back" },
  "netns-changed": "call ADD again with the path of the container's own network namespace",
  "netns-unproven": "nothing for this container; restart it, and its sandbox is recorded again",
  "sandbox-too-large": "remove what the container has put into its own routes and addresses, or restart it",
  "netns-unreachable":
    "mount the directory of the network namespaces into the agent's container, or let the agent see the processes of the host",
  // The forwarder's own, which is no TypeScript.
  "program-missing": "install Tortie again: the program of a plugin belongs beside it, under its name and -main",
  "protocol-unsupported": "run the plugin and the agent of one version",
  "build-timeout": { code: 11, next: "call the operation again; the endpoint's log says what the build waited for" },
  "endpoint-ids-exhausted": { code: 11, next: "raise --max-endpoints of tortie-node, or remove containers that are not needed" },
  "endpoint-name-invalid": {
    code: 4,
    next: "name it by local, container-id, attachment, pod-name, ipv4 or ipv6; docs/reference/api.md has the forms",
  },
  "endpoint-unknown": { code: 3, next: "list what there is with: tortiectl node endpoints" },
  "policy-off": "start the agent of this node with --policy auto, where there are policies to read",
  "policy-in-use": "start the agent with --policy off, or stop it and its DaemonSet for this node, then repeat this",
  "policy-unknown": { code: 3, next: "list what this node knows with: tortiectl policy list" },
  "policy-end-unknown": {
    code: 3,
    next: "name a pod as NAMESPACE/NAME, an address, or a host end; tortiectl node endpoints lists those of this node",
  },
  "endpoint-ambiguous": { code: 4, next: "name one of the endpoints that the message lists by its attachment or its number" },
  "identity-unknown": { code: 3, next: "list what there is with: tortiectl identity list" },
  "identities-off":
    "start the agent in a cluster with --endpoint-objects or with policy, or ask the API server: tortiectl identity list --kubeconfig FILE",
  "endpoint-removed": { code: 11, next: "call the operation again; the endpoint is being removed" },
  "agent-running": "stop the agent that the message names: a host has one, whatever its --run-dir",
  "agent-busy": { code: 11, next: "call the operation again after the time that the answer names" },
  "agent-starting": { code: 11, next: "call the operation again; tortiectl node status says what the agent waits for" },
  "agent-stopping": { code: 11, next: "call the operation again: the agent was asked to end, and the next one serves it" },
  "request-too-large": { code: 4, next: "send at most 1 MiB" },
  "operation-unknown": { code: 4, next: "GET /v1/openapi.json lists the operations" },
  "access-denied": { code: 4, next: "call as root; members of the socket's group may only read" },
  "reads-limited": { code: 11, next: "ask again after the time that the answer names" },
  "endpoint-differs": "remove the endpoint first, or repeat the request as it was",
  "endpoint-immutable": "remove the endpoint and register it again",
  "migration-target-differs": "compare the two with --dry-run, and give the right target; --overwrite makes it equal to the source",
  "migration-add-running": "wait until the ADD that the message names is over, or raise --wait, and start again",
  "migration-moving": "stop what writes to the datastores meanwhile, and start again; what was copied stays",
  "migration-left-paused": "make the datastores reachable, and start the same command again: it makes them as ready as they were before",
  "migration-unfinished": "finish that migration by the same command as before, or remove its record",
  internal: "this is a defect of tortie: please report it with the log of this operation",
} as const satisfies Readonly<Record<string, Entry | string>>;

/** A stable word of the catalogue. */
export type ErrorWord = keyof typeof ERROR_CATALOGUE;

export function entryOf(word: ErrorWord): Entry {
  const entry: Entry | string = ERROR_CATALOGUE[word];
  return typeof entry === "string" ? { code: PLAIN, next: entry } : entry;
}
