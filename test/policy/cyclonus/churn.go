package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/mattfenwick/cyclonus/pkg/connectivity/probe"
	"github.com/mattfenwick/cyclonus/pkg/matcher"
	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	// changesPerSecond is what issue 29 names.
	changesPerSecond = 50
	// One change in so many is of what the dialling pods' verdicts depend on; the others are of pods and policies beside them.
	nearOneIn = 10
	// lag is how long after the API server's answer the older state may still be in force.
	lag = 2 * time.Second
	// nearPolicies are those in the namespaces of the dialling pods.
	nearPolicies = 36
	farNamespace = "far"
	writers      = 8
	roles        = 10
	shownWrong   = 10
)

// Churn changes objects all the time and compares every dial with what Cyclonus' matcher says of the states that may be in force.
type Churn struct {
	cluster   *Cluster
	resources *probe.Resources
	random    *rand.Rand
	policies  []*networkingv1.NetworkPolicy
	dials     map[*probe.Pod][]Dial
	traffic   map[*probe.Pod][]*matcher.Traffic
	// fresh counts pods that come and go.
	fresh  int
	lock   sync.Mutex
	states []*State
}

// State is what must pass from a change until the next one.
type State struct {
	// begun is before the request, applied after its answer.
	begun, applied time.Time
	passes         map[*probe.Pod][]bool
}

// ChurnReport has what the test judges.
type ChurnReport struct {
	Changes int      `json:"changes"`
	Dials   int      `json:"dials"`
	Certain int      `json:"certain"`
	Passed  int      `json:"passed"`
	Wrong   []string `json:"wrong"`
}

func newChurn(cluster *Cluster, resources *probe.Resources, seed int64) *Churn {
	churn := &Churn{
		cluster:   cluster,
		resources: resources,
		random:    rand.New(rand.NewSource(seed)),
		dials:     map[*probe.Pod][]Dial{},
		traffic:   map[*probe.Pod][]*matcher.Traffic{},
	}
	for _, from := range resources.Pods {
		for _, to := range resources.Pods {
			if from == to {
				continue
			}
			for _, port := range ports {
				for _, protocol := range protocols {
					address := net.JoinHostPort(to.IP, strconv.Itoa(port))
					churn.dials[from] = append(churn.dials[from], Dial{Protocol: protocol, Address: address, Name: keyOf(to.Namespace, to.Name)})
					churn.traffic[from] = append(churn.traffic[from], &matcher.Traffic{
						Source: churn.peer(from), Destination: churn.peer(to), ResolvedPort: port, Protocol: protocol,
					})
				}
			}
		}
	}
	return churn
}

func (c *Churn) peer(pod *probe.Pod) *matcher.TrafficPeer {
	labels := c.resources.Namespaces[pod.Namespace]
	// The map of labels is the pod's own: it follows what is changed there.
	internal := &matcher.InternalPeer{PodLabels: pod.Labels, NamespaceLabels: labels, Namespace: pod.Namespace}
	return &matcher.TrafficPeer{Internal: internal, IP: pod.IP}
}

// run prepares the world, changes and dials for so long, and in the end wants the exact verdicts of the last state.
func (c *Churn) run(duration time.Duration, farPods, farPolicies int) (*ChurnReport, error) {
	if err := c.prepare(farPods, farPolicies); err != nil {
		return nil, err
	}
	c.append(time.Now())(time.Now())
	if err := c.cluster.settle(); err != nil {
		return nil, err
	}
	report := &ChurnReport{Wrong: []string{}}
	done := make(chan struct{})
	failed := make(chan error, 1)
	go func() { failed <- c.change(done, report, farPods, farPolicies) }()
	for end := time.Now().Add(duration); time.Now().Before(end); {
		if err := c.compare(report, lag); err != nil {
			return nil, err
		}
	}
	close(done)
	if err := <-failed; err != nil {
		return nil, err
	}
	c.cluster.changed()
	if err := c.cluster.settle(); err != nil {
		return nil, err
	}
	return report, c.compare(report, 0)
}

func (c *Churn) prepare(farPods, farPolicies int) error {
	if _, err := c.cluster.CreateNamespace(&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: farNamespace, Labels: map[string]string{"ns": farNamespace}}}); err != nil {
		return err
	}
	for i, pod := range c.resources.Pods {
		if err := c.setRole(pod, i%roles); err != nil {
			return err
		}
	}
	for i := 0; i < nearPolicies; i++ {
		policy := c.policy(namespaces[i%len(namespaces)], fmt.Sprintf("near%d", i))
		if _, err := c.cluster.CreateNetworkPolicy(policy); err != nil {
			return err
		}
		c.policies = append(c.policies, policy)
	}
	for i := 0; i < farPolicies; i++ {
		if _, err := c.cluster.CreateNetworkPolicy(c.policy(farNamespace, fmt.Sprintf("far%d", i))); err != nil {
			return err
		}
	}
	return c.inParallel(farPods, c.createFarPod)
}

func (c *Churn) inParallel(count int, work func(int) error) error {
	numbers := make(chan int)
	failed := make(chan error, writers)
	for i := 0; i < writers; i++ {
		go func() {
			var err error
			for number := range numbers {
				if err == nil {
					err = work(number)
				}
			}
			failed <- err
		}()
	}
	for i := 0; i < count; i++ {
		numbers <- i
	}
	close(numbers)
	var first error
	for i := 0; i < writers; i++ {
		if err := <-failed; err != nil && first == nil {
			first = err
		}
	}
	return first
}

// createFarPod makes a pod that runs on no node here, with the annotation and the status of one that does.
func (c *Churn) createFarPod(number int) error {
	address := fmt.Sprintf("10.%d.%d.%d", 200+number/62500, number/250%250, 1+number%250)
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: farName(number), Namespace: farNamespace, Labels: map[string]string{"pod": "far", "role": roleOf(number)},
			Annotations: map[string]string{"cni.projectcalico.org/podIP": address + "/32", "cni.projectcalico.org/podIPs": address + "/32"},
		},
		Spec: v1.PodSpec{NodeName: "far", Containers: []v1.Container{{Name: "c", Image: "none"}}},
	}
	pods := c.cluster.ClientSet.CoreV1().Pods(farNamespace)
	created, err := pods.Create(context.TODO(), pod, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	created.Status = v1.PodStatus{Phase: v1.PodRunning, PodIP: address, PodIPs: []v1.PodIP{{IP: address}}}
	_, err = pods.UpdateStatus(context.TODO(), created, metav1.UpdateOptions{})
	return err
}

func farName(number int) string { return fmt.Sprintf("far%d", number) }

func roleOf(number int) string { return fmt.Sprintf("r%d", number%roles) }

// change changes something at every tick until it is told to end.
func (c *Churn) change(done <-chan struct{}, report *ChurnReport, farPods, farPolicies int) error {
	ticks := time.NewTicker(time.Second / changesPerSecond)
	defer ticks.Stop()
	failed := make(chan error, 1)
	busy := make(chan struct{}, writers)
	for {
		select {
		case <-done:
			return nil
		case err := <-failed:
			return err
		case <-ticks.C:
		}
		report.Changes++
		if report.Changes%nearOneIn == 0 {
			if err := c.changeNear(); err != nil {
				return err
			}
			continue
		}
		far := c.far(farPods, farPolicies)
		busy <- struct{}{}
		go func() {
			defer func() { <-busy }()
			if err := far(); err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		}()
	}
}

// changeNear changes a policy or a label that the dialling pods' verdicts depend on.
func (c *Churn) changeNear() error {
	begun := time.Now()
	c.lock.Lock()
	var write func() error
	if c.random.Intn(3) == 0 {
		pod := c.resources.Pods[c.random.Intn(len(c.resources.Pods))]
		role := c.random.Intn(roles)
		pod.Labels["role"] = roleOf(role)
		write = func() error { return c.setRole(pod, role) }
	} else {
		at := c.random.Intn(len(c.policies))
		policy := c.policy(c.policies[at].Namespace, c.policies[at].Name)
		c.policies[at] = policy
		write = func() error { _, err := c.cluster.UpdateNetworkPolicy(policy); return err }
	}
	applied := c.append(begun)
	c.lock.Unlock()
	err := write()
	c.lock.Lock()
	applied(time.Now())
	c.lock.Unlock()
	return err
}

// append computes the verdicts of the present state; what it returns is told when the API server has it.
func (c *Churn) append(begun time.Time) func(time.Time) {
	// Far in the future: until the answer the state before may be in force.
	state := &State{begun: begun, applied: begun.Add(time.Hour), passes: map[*probe.Pod][]bool{}}
	parsed := matcher.BuildNetworkPolicies(true, c.policies)
	for from, traffic := range c.traffic {
		for _, one := range traffic {
			state.passes[from] = append(state.passes[from], parsed.IsTrafficAllowed(one).IsAllowed())
		}
	}
	c.states = append(c.states, state)
	return func(now time.Time) { state.applied = now }
}

// far picks a change of something that no dialling pod depends on.
func (c *Churn) far(farPods, farPolicies int) func() error {
	number, role := c.random.Intn(farPods), c.random.Intn(roles)
	switch c.random.Intn(nearOneIn) {
	case 0:
		policy := c.policy(farNamespace, fmt.Sprintf("far%d", c.random.Intn(farPolicies)))
		return func() error { _, err := c.cluster.UpdateNetworkPolicy(policy); return err }
	case 1:
		// Made and deleted at once, with a number that no other pod has.
		c.fresh++
		number = farPods + c.fresh
		return func() error {
			if err := c.createFarPod(number); err != nil {
				return err
			}
			return c.cluster.ClientSet.CoreV1().Pods(farNamespace).Delete(context.TODO(), farName(number), *metav1.NewDeleteOptions(0))
		}
	default:
		return func() error { return c.patchRole(farNamespace, farName(number), role) }
	}
}

func (c *Churn) setRole(pod *probe.Pod, role int) error {
	pod.Labels["role"] = roleOf(role)
	return c.patchRole(pod.Namespace, pod.Name, role)
}

func (c *Churn) patchRole(namespace, name string, role int) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]string{"role": roleOf(role)}}})
	if err != nil {
		return err
	}
	_, err = c.cluster.ClientSet.CoreV1().Pods(namespace).Patch(context.TODO(), name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// policy makes one at random: a pod or a role as target, in one direction or both, one or two rules of roles, now and then of ports.
func (c *Churn) policy(namespace, name string) *networkingv1.NetworkPolicy {
	role := func() string { return roleOf(c.random.Intn(roles)) }
	target := map[string]string{"pod": pods[c.random.Intn(len(pods))]}
	if c.random.Intn(4) == 0 {
		target = map[string]string{"role": role()}
	}
	spec := networkingv1.NetworkPolicySpec{PodSelector: metav1.LabelSelector{MatchLabels: target}}
	peers := func() []networkingv1.NetworkPolicyPeer {
		in := []metav1.LabelSelectorRequirement{{Key: "role", Operator: metav1.LabelSelectorOpIn, Values: []string{role(), role(), role(), role()}}}
		return []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{MatchExpressions: in}, NamespaceSelector: &metav1.LabelSelector{}}}
	}
	allowed := func() []networkingv1.NetworkPolicyPort {
		if c.random.Intn(2) == 0 {
			return nil
		}
		port, protocol := intstr.FromInt32(int32(ports[c.random.Intn(2)])), protocols[c.random.Intn(2)]
		return []networkingv1.NetworkPolicyPort{{Port: &port, Protocol: &protocol}}
	}
	direction := c.random.Intn(3)
	if direction != 0 {
		spec.PolicyTypes = append(spec.PolicyTypes, networkingv1.PolicyTypeIngress)
		spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{From: peers(), Ports: allowed()}, {From: peers(), Ports: allowed()}}
	}
	if direction != 1 {
		spec.PolicyTypes = append(spec.PolicyTypes, networkingv1.PolicyTypeEgress)
		spec.Egress = []networkingv1.NetworkPolicyEgressRule{{To: peers(), Ports: allowed()}, {To: peers(), Ports: allowed()}}
	}
	return &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: spec}
}

// compare lets every pod dial every other once.
func (c *Churn) compare(report *ChurnReport, late time.Duration) error {
	var group sync.WaitGroup
	var lock sync.Mutex
	var first error
	for from, dials := range c.dials {
		group.Add(1)
		go func() {
			defer group.Done()
			all := make([]int, len(dials))
			for i := range all {
				all[i] = i
			}
			// A busy machine may be late with an answer.
			for tries := 3; tries > 0 && len(all) > 0; tries-- {
				missing, err := c.try(report, &lock, from, all, late, tries == 1)
				if err != nil {
					lock.Lock()
					first = err
					lock.Unlock()
					return
				}
				all = missing
			}
		}()
	}
	group.Wait()
	return first
}

// try makes some dials of a pod. It returns those that must pass and had no answer, unless this is the last try: then they are wrong.
func (c *Churn) try(report *ChurnReport, lock *sync.Mutex, from *probe.Pod, chosen []int, late time.Duration, isLast bool) ([]int, error) {
	dials := make([]Dial, len(chosen))
	for at, i := range chosen {
		dials[at] = c.dials[from][i]
	}
	start := time.Now()
	problems, err := c.cluster.sandboxes[keyOf(from.Namespace, from.Name)].dial(dials, c.cluster.timeout)
	end := time.Now()
	if err != nil {
		return nil, err
	}
	lock.Lock()
	defer lock.Unlock()
	var missing []int
	for at, i := range chosen {
		passes := problems[at] == ""
		mayPass, mayFail := c.rightVerdicts(from, i, start.Add(-late), end)
		report.Dials++
		if mayPass != mayFail {
			report.Certain++
		}
		if passes {
			report.Passed++
		}
		switch {
		case passes && mayPass || !passes && mayFail:
		case !passes && !isLast:
			missing = append(missing, i)
		case len(report.Wrong) < shownWrong:
			report.Wrong = append(report.Wrong, fmt.Sprintf("%s/%s → %s %s %s: passes: %t",
				from.Namespace, from.Name, dials[at].Name, dials[at].Protocol, dials[at].Address, passes))
		}
	}
	return missing, nil
}

// rightVerdicts looks at the states that may have been in force in that time: a state ends when the API server has the next one.
func (c *Churn) rightVerdicts(from *probe.Pod, dial int, start, end time.Time) (mayPass, mayFail bool) {
	c.lock.Lock()
	defer c.lock.Unlock()
	for at, state := range c.states {
		isOver := at+1 < len(c.states) && c.states[at+1].applied.Before(start)
		if !isOver && state.begun.Before(end) {
			mayPass, mayFail = mayPass || state.passes[from][dial], mayFail || !state.passes[from][dial]
		}
	}
	return mayPass, mayFail
}
