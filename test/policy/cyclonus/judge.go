package main

import (
	"encoding/json"
	"os"

	"github.com/mattfenwick/cyclonus/pkg/matcher"
	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// JudgedCluster is a cluster with flows that Cyclonus' matcher is asked about, without any cluster or packet.
type JudgedCluster struct {
	Namespaces map[string]map[string]string  `json:"namespaces"`
	Policies   []*networkingv1.NetworkPolicy `json:"policies"`
	Pods       []JudgedPod                   `json:"pods"`
	Flows      []JudgedFlow                  `json:"flows"`
}

type JudgedPod struct {
	Namespace string            `json:"namespace"`
	Labels    map[string]string `json:"labels"`
	Addresses []string          `json:"addresses"`
	Ports     []struct {
		Name     string      `json:"name"`
		Protocol v1.Protocol `json:"protocol"`
		Port     int         `json:"port"`
	} `json:"ports"`
}

type JudgedFlow struct {
	Source      string      `json:"source"`
	Destination string      `json:"destination"`
	Protocol    v1.Protocol `json:"protocol"`
	// 0: the protocol has none.
	Port int `json:"port"`
}

// Verdict says of each end whether its policies let the flow pass.
type Verdict struct {
	Egress  bool `json:"egress"`
	Ingress bool `json:"ingress"`
}

// judge reads a list of clusters from standard input and prints a list of verdicts for each.
func judge() error {
	var clusters []JudgedCluster
	if err := json.NewDecoder(os.Stdin).Decode(&clusters); err != nil {
		return err
	}
	result := make([][]Verdict, len(clusters))
	for index, cluster := range clusters {
		policy := matcher.BuildNetworkPolicies(true, cluster.Policies)
		result[index] = make([]Verdict, len(cluster.Flows))
		for at, flow := range cluster.Flows {
			result[index][at] = cluster.verdictOf(policy, flow)
		}
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}

// verdictOf asks once for each name that the port has at the destination: the matcher knows one name at a time.
func (cluster *JudgedCluster) verdictOf(policy *matcher.Policy, flow JudgedFlow) Verdict {
	traffic := matcher.Traffic{
		Source:       cluster.peerAt(flow.Source),
		Destination:  cluster.peerAt(flow.Destination),
		ResolvedPort: flow.Port,
		Protocol:     flow.Protocol,
	}
	var verdict Verdict
	for _, name := range cluster.namesOf(flow) {
		traffic.ResolvedPortName = name
		verdict.Egress = verdict.Egress || policy.IsIngressOrEgressAllowed(&traffic, false).IsAllowed()
		verdict.Ingress = verdict.Ingress || policy.IsIngressOrEgressAllowed(&traffic, true).IsAllowed()
	}
	return verdict
}

func (cluster *JudgedCluster) podAt(address string) *JudgedPod {
	for index := range cluster.Pods {
		for _, own := range cluster.Pods[index].Addresses {
			if own == address {
				return &cluster.Pods[index]
			}
		}
	}
	return nil
}

func (cluster *JudgedCluster) peerAt(address string) *matcher.TrafficPeer {
	pod := cluster.podAt(address)
	if pod == nil {
		return &matcher.TrafficPeer{IP: address}
	}
	labels := cluster.Namespaces[pod.Namespace]
	return &matcher.TrafficPeer{
		IP:       address,
		Internal: &matcher.InternalPeer{PodLabels: pod.Labels, Namespace: pod.Namespace, NamespaceLabels: labels},
	}
}

func (cluster *JudgedCluster) namesOf(flow JudgedFlow) []string {
	names := []string{""}
	if pod := cluster.podAt(flow.Destination); pod != nil {
		for _, port := range pod.Ports {
			if port.Protocol == flow.Protocol && port.Port == flow.Port {
				names = append(names, port.Name)
			}
		}
	}
	return names
}
