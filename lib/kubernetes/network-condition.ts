/**
 * The condition of a Node that says whether pods would get a network there. While it is True, kube-controller-manager keeps a taint with the
 * effect NoSchedule on the node (kubernetes, pkg/controller/nodelifecycle). Its reason says who has written it.
 */
export const NETWORK_UNAVAILABLE = "NetworkUnavailable";

export const NETWORK_TAINT = "node.kubernetes.io/network-unavailable";

/** Reasons that tortie-controller writes, by what they say of the node's agent. */
export const OUR_REASONS = { up: "TortieIsUp", down: "TortieIsDown" } as const;
