package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mattfenwick/cyclonus/pkg/kube"
	"github.com/mattfenwick/cyclonus/pkg/worker"
	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const reachLimit = 60 * time.Second

// Cluster keeps objects in a real API server, by Cyclonus' own client, and gives pods real network namespaces.
type Cluster struct {
	*kube.Kubernetes
	attacher *Attacher
	nodes    []string
	family   int
	timeout  time.Duration
	dials    atomic.Int64

	lock      sync.Mutex
	sandboxes map[string]*Sandbox
	// names has the pod of an address: a dial that another pod answers is an error.
	names map[string]string
	// placed counts pods, to spread them over the nodes.
	placed int
	// isSettled is false after a change that policy may depend on.
	isSettled bool
}

func newCluster(kubeconfig, socket string, nodes []string, family int, timeout time.Duration) (*Cluster, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	// The client's own limit is 5 requests a second.
	config.QPS, config.Burst = 1000, 1000
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &Cluster{
		Kubernetes: &kube.Kubernetes{ClientSet: client, RestConfig: config},
		attacher:   newAttacher(socket),
		nodes:      nodes,
		family:     family,
		timeout:    timeout,
		sandboxes:  map[string]*Sandbox{},
		names:      map[string]string{},
	}, nil
}

// CreatePod makes the object on a node, has it attached, listens on its ports and reports its addresses as a kubelet does.
func (c *Cluster) CreatePod(pod *v1.Pod) (*v1.Pod, error) {
	pod.Spec.NodeName = c.nodes[c.placed%len(c.nodes)]
	c.placed++
	c.changed()
	if _, err := c.Kubernetes.CreatePod(pod); err != nil {
		return nil, err
	}
	attached, err := c.attacher.attach(pod.Spec.NodeName, pod.Namespace, pod.Name)
	if err != nil {
		return nil, err
	}
	sandbox, err := newSandbox(attached.Netns)
	if err != nil {
		return nil, err
	}
	name := keyOf(pod.Namespace, pod.Name)
	for _, container := range pod.Spec.Containers {
		if err := sandbox.listen(container.Ports[0], name); err != nil {
			return nil, err
		}
	}
	c.lock.Lock()
	c.sandboxes[name] = sandbox
	c.names[attached.IPv4], c.names[attached.IPv6] = name, name
	c.lock.Unlock()
	return c.report(pod, attached)
}

// report writes the status; the first address is the one that Cyclonus works with.
func (c *Cluster) report(pod *v1.Pod, attached *Attached) (*v1.Pod, error) {
	current, err := c.GetPod(pod.Namespace, pod.Name)
	if err != nil {
		return nil, err
	}
	addresses := []v1.PodIP{{IP: attached.IPv4}, {IP: attached.IPv6}}
	if c.family == 6 {
		addresses[0], addresses[1] = addresses[1], addresses[0]
	}
	current.Status.Phase = v1.PodRunning
	current.Status.PodIP, current.Status.PodIPs = addresses[0].IP, addresses
	return c.ClientSet.CoreV1().Pods(pod.Namespace).UpdateStatus(context.TODO(), current, metav1.UpdateOptions{})
}

func (c *Cluster) DeletePod(namespace, name string) error {
	c.changed()
	if err := c.attacher.detach(namespace, name); err != nil {
		return err
	}
	c.lock.Lock()
	key := keyOf(namespace, name)
	c.sandboxes[key].close()
	delete(c.sandboxes, key)
	maps.DeleteFunc(c.names, func(_, owner string) bool { return owner == key })
	c.lock.Unlock()
	return c.ClientSet.CoreV1().Pods(namespace).Delete(context.TODO(), name, *metav1.NewDeleteOptions(0))
}

// DeleteNamespace does what the namespace controller does: no controller manager runs.
func (c *Cluster) DeleteNamespace(name string) error {
	c.changed()
	ctx := context.TODO()
	namespaces := c.ClientSet.CoreV1().Namespaces()
	if err := namespaces.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	pods, err := c.GetPodsInNamespace(name)
	if err != nil {
		return err
	}
	for _, pod := range pods {
		if err := c.DeletePod(name, pod.Name); err != nil {
			return err
		}
	}
	services, err := c.GetServicesInNamespace(name)
	if err != nil {
		return err
	}
	for _, service := range services {
		if err := c.DeleteService(name, service.Name); err != nil {
			return err
		}
	}
	if err := c.DeleteAllNetworkPoliciesInNamespace(name); err != nil {
		return err
	}
	namespace, err := c.GetNamespace(name)
	if err != nil {
		return err
	}
	namespace.Spec.Finalizers = nil
	_, err = namespaces.Finalize(ctx, namespace, metav1.UpdateOptions{})
	return err
}

// SetNamespaceLabels and SetPodLabels leave objects alone that are as wanted: each case begins with setting all of them.
func (c *Cluster) SetNamespaceLabels(name string, labels map[string]string) (*v1.Namespace, error) {
	namespace, err := c.GetNamespace(name)
	if err != nil || maps.Equal(namespace.Labels, labels) {
		return namespace, err
	}
	c.changed()
	return c.Kubernetes.SetNamespaceLabels(name, labels)
}

func (c *Cluster) SetPodLabels(namespace, name string, labels map[string]string) (*v1.Pod, error) {
	pod, err := c.GetPod(namespace, name)
	if err != nil || maps.Equal(pod.Labels, labels) {
		return pod, err
	}
	c.changed()
	return c.Kubernetes.SetPodLabels(namespace, name, labels)
}

func (c *Cluster) CreateNamespace(namespace *v1.Namespace) (*v1.Namespace, error) {
	c.changed()
	return c.Kubernetes.CreateNamespace(namespace)
}

func (c *Cluster) CreateNetworkPolicy(policy *networkingv1.NetworkPolicy) (*networkingv1.NetworkPolicy, error) {
	c.changed()
	return c.Kubernetes.CreateNetworkPolicy(policy)
}

// UpdateNetworkPolicy gets the right of a client to overwrite: Cyclonus sends no resourceVersion, which the API server allows.
func (c *Cluster) UpdateNetworkPolicy(policy *networkingv1.NetworkPolicy) (*networkingv1.NetworkPolicy, error) {
	c.changed()
	return c.Kubernetes.UpdateNetworkPolicy(policy)
}

func (c *Cluster) DeleteNetworkPolicy(namespace, name string) error {
	c.changed()
	return c.Kubernetes.DeleteNetworkPolicy(namespace, name)
}

func (c *Cluster) DeleteAllNetworkPoliciesInNamespace(namespace string) error {
	c.changed()
	return c.Kubernetes.DeleteAllNetworkPoliciesInNamespace(namespace)
}

// ExecuteRemoteCommand plays Cyclonus' worker in a pod: it dials everything that the last argument asks for.
func (c *Cluster) ExecuteRemoteCommand(namespace, pod, _ string, command []string) (string, string, error, error) {
	if err := c.settle(); err != nil {
		return "", "", nil, err
	}
	var batch worker.Batch
	if err := json.Unmarshal([]byte(command[len(command)-1]), &batch); err != nil {
		return "", "", nil, err
	}
	c.lock.Lock()
	sandbox := c.sandboxes[keyOf(namespace, pod)]
	dials := make([]Dial, len(batch.Requests))
	for i, request := range batch.Requests {
		dials[i] = Dial{Protocol: request.Protocol, Address: request.Address(), Name: c.names[request.Host]}
	}
	c.lock.Unlock()
	if sandbox == nil {
		return "", "", nil, fmt.Errorf("no pod %s/%s", namespace, pod)
	}
	c.dials.Add(int64(len(dials)))
	problems, err := sandbox.dial(dials, c.timeout)
	if err != nil {
		return "", "", nil, err
	}
	results := make([]*worker.Result, len(dials))
	for i, request := range batch.Requests {
		results[i] = &worker.Result{Request: request, Error: problems[i]}
	}
	text, err := json.Marshal(results)
	return string(text), "", nil, err
}

// reach waits until every pod reaches every other while no policy is there: routes between nodes take a moment.
func (c *Cluster) reach() error {
	if err := c.settle(); err != nil {
		return err
	}
	var dials []Dial
	for address, name := range c.names {
		if netip.MustParseAddr(address).Is4() == (c.family == 4) {
			dials = append(dials, Dial{Protocol: v1.ProtocolTCP, Address: net.JoinHostPort(address, "80"), Name: name})
		}
	}
	deadline := time.Now().Add(reachLimit)
	for name, sandbox := range c.sandboxes {
		for {
			problems, err := sandbox.dial(dials, c.timeout)
			if err != nil {
				return err
			}
			failed := slices.IndexFunc(problems, func(problem string) bool { return problem != "" })
			if failed < 0 {
				break
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("%s does not reach %s, and no policy is there: %s", name, dials[failed].Name, problems[failed])
			}
		}
	}
	return nil
}

func (c *Cluster) changed() {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.isSettled = false
}

// settle waits once after changes; the pods that begin to dial at the same time wait with the first one.
func (c *Cluster) settle() error {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.isSettled {
		return nil
	}
	err := c.attacher.settle()
	c.isSettled = err == nil
	return err
}

func keyOf(namespace, name string) string {
	return namespace + "/" + name
}
