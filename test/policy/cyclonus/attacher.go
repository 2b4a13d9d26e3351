package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
)

// Attacher asks the one who started this program to attach and detach pods by CNI, and to wait for policy.
type Attacher struct {
	client http.Client
}

// Attached tells where a pod's network namespace is and what addresses it got.
type Attached struct {
	Netns string `json:"netns"`
	IPv4  string `json:"ipv4"`
	IPv6  string `json:"ipv6"`
}

func newAttacher(socket string) *Attacher {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}
	return &Attacher{client: http.Client{Transport: &http.Transport{DialContext: dial}}}
}

func (a *Attacher) attach(node, namespace, name string) (*Attached, error) {
	var attached Attached
	err := a.ask("attach", map[string]string{"node": node, "namespace": namespace, "name": name}, &attached)
	return &attached, err
}

func (a *Attacher) detach(namespace, name string) error {
	return a.ask("detach", map[string]string{"namespace": namespace, "name": name}, nil)
}

// settle returns when all that the API server has is in force on every node.
func (a *Attacher) settle() error {
	return a.ask("settle", map[string]string{}, nil)
}

// drops returns what the nodes say of the last packets that they dropped.
func (a *Attacher) drops() (string, error) {
	var answer struct {
		Text string `json:"text"`
	}
	err := a.ask("drops", map[string]string{}, &answer)
	return answer.Text, err
}

func (a *Attacher) ask(what string, question map[string]string, answer any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	response, err := a.client.Post("http://attacher/"+what, "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %v: %s", what, question, text)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}
