// Cyclonus' generated NetworkPolicy cases, on the objects of a real API server and on pods that are network namespaces: each case
// changes objects, and every pod dials every other. The matcher of Cyclonus says what must pass. Who started this program attaches the
// pods and says when policy is in force (attacher.go).
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"runtime"
	"sort"
	"strings"
	"time"

	"github.com/mattfenwick/cyclonus/pkg/connectivity"
	"github.com/mattfenwick/cyclonus/pkg/connectivity/probe"
	"github.com/mattfenwick/cyclonus/pkg/generator"
	"github.com/sirupsen/logrus"
	v1 "k8s.io/api/core/v1"
)

var (
	kubeconfig = flag.String("kubeconfig", "", "an administrator's kubeconfig")
	attacher   = flag.String("attacher", "", "socket of whoever attaches pods")
	nodes      = flag.String("nodes", "node1", "names of the nodes that pods are spread over, separated by commas")
	family     = flag.Int("family", 4, "4 or 6: the addresses that are dialled, and that blocks of addresses are made of")
	sample     = flag.Int("sample", 0, "how many cases; 0: all of them")
	seed       = flag.Int64("seed", 1, "which cases a sample has")
	only       = flag.String("only", "", "run the cases whose descriptions contain this")
	timeout    = flag.Duration("timeout", 300*time.Millisecond, "a dial without an answer after this, and after a control dial, is blocked")
	report     = flag.String("report", "", "file for the numbers, as JSON")
	churn      = flag.Duration("churn", 0, "change objects for so long and dial meanwhile, instead of running cases")
	farPods    = flag.Int("far-pods", 5000, "with churn: pods beside those that dial")
	farNets    = flag.Int("far-policies", 464, "with churn: policies beside those of the pods that dial")
	judging    = flag.Bool("judge", false, "read clusters and flows as JSON and print the matcher's verdicts (judge.go), without a cluster")
	verbose    = flag.Bool("verbose", false, "print the tables of failed cases")
)

var (
	namespaces = []string{"x", "y", "z"}
	pods       = []string{"a", "b", "c"}
	ports      = []int{80, 81}
	// The kernel need not have SCTP sockets: policies name SCTP, and nobody dials it.
	protocols = []v1.Protocol{v1.ProtocolTCP, v1.ProtocolUDP}
)

// Report has what the test judges.
type Report struct {
	Generated int      `json:"generated"`
	Cases     int      `json:"cases"`
	Passed    int      `json:"passed"`
	Failed    []string `json:"failed"`
	Dials     int64    `json:"dials"`
	Repeated  int      `json:"repeated"`
	Seconds   float64  `json:"seconds"`
}

func main() {
	// Keeps the first thread out of the pods' namespaces: whoever removes one ends the processes that it finds there.
	runtime.LockOSThread()
	flag.Parse()
	logrus.SetLevel(logrus.WarnLevel)
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "%+v\n", err)
		os.Exit(2)
	}
}

func run() error {
	if *judging {
		return judge()
	}
	cluster, err := newCluster(*kubeconfig, *attacher, strings.Split(*nodes, ","), *family, *timeout)
	if err != nil {
		return err
	}
	resources, err := probe.NewDefaultResources(cluster, namespaces, pods, ports, protocols, nil, 60, true, "none")
	if err != nil {
		return err
	}
	block, err := resources.GetPod("z", "c")
	if err != nil {
		return err
	}
	if err := cluster.reach(); err != nil {
		return err
	}
	if *churn > 0 {
		return runChurn(cluster, resources)
	}
	return runCases(cluster, resources, block.IP)
}

func runChurn(cluster *Cluster, resources *probe.Resources) error {
	result, err := newChurn(cluster, resources, *seed).run(*churn, *farPods, *farNets)
	if err != nil {
		return err
	}
	fmt.Printf("%d dials during %d changes, %d of them with only one right verdict, %d passed, %d wrong\n",
		result.Dials, result.Changes, result.Certain, result.Passed, len(result.Wrong))
	return write(result)
}

func runCases(cluster *Cluster, resources *probe.Resources, block string) error {
	all := generator.NewTestCaseGenerator(true, block, namespaces, nil, nil).GenerateTestCases()
	cases := choose(all)
	interpreter := connectivity.NewInterpreter(cluster, resources, &connectivity.InterpreterConfig{
		ResetClusterBeforeTestCase:       true,
		VerifyClusterStateBeforeTestCase: true,
		BatchJobs:                        true,
		// A pod that dials itself does not leave its namespace.
		IgnoreLoopback: true,
		// Only dials without an answer may be repeated (verdictOf).
		KubeProbeRetries: 2,
	})
	result := Report{Generated: len(all), Cases: len(cases), Failed: []string{}}
	began := time.Now()
	for index, testCase := range cases {
		for _, step := range testCase.Steps {
			step.Probe.Mode = generator.ProbeModePodIP
		}
		start := time.Now()
		outcome := interpreter.ExecuteTestCase(testCase)
		if outcome.Err != nil {
			return fmt.Errorf("%s: %w", testCase.Description, outcome.Err)
		}
		passed, repeated := verdictOf(outcome)
		result.Repeated += repeated
		word := "FAIL"
		if passed {
			word = "pass"
			result.Passed++
		} else {
			result.Failed = append(result.Failed, testCase.Description)
		}
		fmt.Printf("%s %d/%d %.1f s: %s\n", word, index+1, len(cases), time.Since(start).Seconds(), testCase.Description)
		if word == "FAIL" && *verbose {
			(&connectivity.Printer{IgnoreLoopback: true}).PrintTestCaseResult(outcome)
			drops, err := cluster.attacher.drops()
			if err != nil {
				return err
			}
			fmt.Println(drops)
		}
	}
	result.Dials, result.Seconds = cluster.dials.Load(), time.Since(began).Seconds()
	fmt.Printf("%d of %d cases passed, %d dials, %d rounds of them repeated because answers were missing, %.0f s\n",
		result.Passed, result.Cases, result.Dials, result.Repeated, result.Seconds)
	return write(result)
}

// verdictOf lets a round of dials be repeated where answers were missing, which a busy machine does too. One dial that was answered and
// must not be fails the case, whatever came later.
func verdictOf(outcome *connectivity.Result) (passed bool, repeated int) {
	passed = outcome.Passed(true)
	for _, step := range outcome.Steps {
		repeated += len(step.KubeProbes) - 1
		for _, round := range step.KubeProbes {
			passed = passed && !letsThroughTooMuch(round, step.SimulatedProbe)
		}
	}
	return passed, repeated
}

func letsThroughTooMuch(seen, wanted *probe.Table) bool {
	for _, pair := range seen.Wrapped.Keys() {
		if pair.From == pair.To {
			continue
		}
		right := wanted.Get(pair.From, pair.To).JobResults
		for key, result := range seen.Get(pair.From, pair.To).JobResults {
			if result.Combined == probe.ConnectivityAllowed && right[key].Combined == probe.ConnectivityBlocked {
				return true
			}
		}
	}
	return false
}

func write(result any) error {
	text, err := json.Marshal(result)
	if err != nil {
		return err
	}
	return os.WriteFile(*report, text, 0o600)
}

// choose takes every case with more than one step first, because these change labels, pods and namespaces, then others by the seed.
func choose(all []*generator.TestCase) []*generator.TestCase {
	if *only != "" {
		var found []*generator.TestCase
		for _, one := range all {
			if strings.Contains(one.Description, *only) {
				found = append(found, one)
			}
		}
		return found
	}
	if *sample == 0 || *sample >= len(all) {
		return all
	}
	order := rand.New(rand.NewSource(*seed)).Perm(len(all))
	sort.SliceStable(order, func(i, j int) bool { return len(all[order[i]].Steps) > 1 && len(all[order[j]].Steps) == 1 })
	order = order[:*sample]
	sort.Ints(order)
	cases := make([]*generator.TestCase, len(order))
	for i, index := range order {
		cases[i] = all[index]
	}
	return cases
}
