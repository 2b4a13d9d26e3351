//go:build programs

// Decodes objects for the Prometheus operator (a JSON list on standard input) by the operator's own types, and refuses fields that those
// do not have: what an API server does with the operator's definitions, which are not among the files of any Go module.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring"
	v1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"sigs.k8s.io/yaml"
)

var kinds = map[string]func() any{
	v1.PodMonitorsKind:    func() any { return &v1.PodMonitor{} },
	v1.PrometheusRuleKind: func() any { return &v1.PrometheusRule{} },
}

func main() {
	var objects []json.RawMessage
	if err := json.NewDecoder(os.Stdin).Decode(&objects); err != nil {
		refuse("standard input: %v", err)
	}
	for _, object := range objects {
		var named struct{ APIVersion, Kind string }
		if err := json.Unmarshal(object, &named); err != nil {
			refuse("%v", err)
		}
		kind, isKnown := kinds[named.Kind]
		if !isKnown || named.APIVersion != monitoring.GroupName+"/"+v1.Version {
			refuse("the operator has no kind %s in %s", named.Kind, named.APIVersion)
		}
		if err := yaml.UnmarshalStrict(object, kind()); err != nil {
			refuse("%s: %v", named.Kind, err)
		}
	}
	fmt.Printf("%d objects\n", len(objects))
}

func refuse(format string, words ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", words...)
	os.Exit(1)
}
