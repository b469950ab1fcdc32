package main

import (
	"fmt"
	"net"
	"net/url"
	"strings"
)

// provider is where the agent's model is. Values holds the agent's environment, under the names goose knows.
type provider struct {
	scripted bool
	values   map[string]string
}

// readProvider chooses the scripted model, whose address is known later, or with MODEL=env the provider that
// the environment names. Without MODEL=env those variables are not looked at.
func readProvider(getenv func(string) string) (provider, error) {
	switch model := getenv("MODEL"); model {
	case "":
		return provider{scripted: true, values: map[string]string{
			"GOOSE_PROVIDER": "openai", "GOOSE_MODEL": "test-model", "OPENAI_API_KEY": "unused-by-the-scripted-model",
		}}, nil
	case "env":
	default:
		return provider{}, fmt.Errorf(`MODEL: expected "env" or nothing, got %q`, model)
	}
	p := provider{values: map[string]string{}}
	for _, need := range []struct{ name, example string }{
		{"GOOSE_PROVIDER", "openai"}, {"GOOSE_MODEL", "the model's name"},
		{"OPENAI_API_KEY", "the provider's key"}, {"OPENAI_HOST", "https://api.openai.com"},
	} {
		value := getenv(need.name)
		if value == "" {
			return provider{}, fmt.Errorf("MODEL=env: %s is empty: expected %s", need.name, need.example)
		}
		p.values[need.name] = value
	}
	return p, checkHost(p.values["OPENAI_HOST"])
}

// checkHost refuses addresses that mean something else inside a Pod.
func checkHost(raw string) error {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return fmt.Errorf("OPENAI_HOST: expected a URL such as https://api.openai.com, got %q", raw)
	}
	host := u.Hostname()
	if ip := net.ParseIP(host); (ip != nil && (ip.IsLoopback() || ip.IsUnspecified())) || strings.EqualFold(host, "localhost") {
		return fmt.Errorf("OPENAI_HOST: %s is the Pod itself from inside a Pod; let the model listen on an address that Pods reach (hack/cluster's node is 10.77.0.1)", host)
	}
	return nil
}
