// Package kube is what the commands of hearth share: which cluster and namespace, as kubectl has it, the streams and what they are,
// how objects are printed, and what is said when something cannot be done.
//
// A command is made by a function that gets an *Env and returns a *cobra.Command; the list of them is in package cli (root.go). It
// reads its cluster with Env.Client and Env.Namespace, writes results to Env.Out and everything else to Env.ErrOut, and returns
// Env.Explain(err), or a Failure of its own with what to do next and the exit code.
package kube

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

const (
	pluginPrefix = "kubectl-"
	// A person's commands are few; what limits them is the API server's own fairness.
	clientQPS   = 50
	clientBurst = 100
)

// Scheme has Kubernetes' own kinds and ours.
var Scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(s); err != nil {
		panic(err) // it registers types only
	}
	if err := hearthv1.AddToScheme(s); err != nil {
		panic(err)
	}
	return s
}()

// Env is what the commands share.
type Env struct {
	genericiooptions.IOStreams
	// Program is how the person calls us: hearth, or kubectl hearth.
	Program string
	// Flags are kubectl's, with its meaning of KUBECONFIG and of the files.
	Flags *genericclioptions.ConfigFlags
	// Now is the clock.
	Now func() time.Time

	bound  *pflag.FlagSet
	client client.WithWatch
}

// New is an Env for a program of that name (os.Args[0]). A kubectl-hearth is called by kubectl, and calls itself kubectl hearth.
func New(program string, streams genericiooptions.IOStreams) *Env {
	name := strings.TrimSuffix(filepath.Base(program), ".exe")
	if plugin, ok := strings.CutPrefix(name, pluginPrefix); ok {
		name = "kubectl " + strings.ReplaceAll(plugin, "_", "-")
	}
	flags := genericclioptions.NewConfigFlags(true)
	flags.CacheDir, flags.DisableCompression = nil, nil // nothing of ours uses them
	flags.WrapConfigFn = func(c *rest.Config) *rest.Config {
		c.QPS, c.Burst = clientQPS, clientBurst
		c.UserAgent = "hearth"
		c.WarningHandler = rest.NewWarningWriter(cleanWriter{streams.ErrOut}, rest.WarningWriterOptions{Deduplicate: true})
		return c
	}
	return &Env{IOStreams: streams, Program: name, Flags: flags, Now: time.Now} //nolint:forbidigo // the one place that says which clock
}

// Bind adds the flags that say which cluster and namespace. Those that few people need are not listed in each command's help.
func (e *Env) Bind(flags *pflag.FlagSet) {
	e.bound = pflag.NewFlagSet("cluster", pflag.ContinueOnError)
	e.Flags.AddFlags(e.bound)
	for name, usage := range map[string]string{
		"kubeconfig": "the kubeconfig file; KUBECONFIG and ~/.kube/config unless given",
		"context":    "the kubeconfig's context to use",
		"namespace":  "the namespace; the kubeconfig's unless given",
		"as":         "the user to be; see kubectl options for the other flags of this kind, which all work here",
	} {
		e.bound.Lookup(name).Usage = usage
	}
	e.bound.VisitAll(func(f *pflag.Flag) {
		switch f.Name {
		case "kubeconfig", "context", "namespace", "as":
		default:
			f.Hidden = true
		}
	})
	flags.AddFlagSet(e.bound)
}

// Chosen tells whether a flag says which cluster, namespace or user.
func (e *Env) Chosen() bool {
	chosen := false
	if e.bound != nil {
		e.bound.VisitAll(func(f *pflag.Flag) { chosen = chosen || f.Changed })
	}
	return chosen
}

// Namespace is the one to work in.
func (e *Env) Namespace() (string, error) {
	namespace, _, err := e.Flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return "", Unconfigured(err)
	}
	return cmp.Or(namespace, "default"), nil
}

// Config is how the API server is reached.
func (e *Env) Config() (*rest.Config, error) {
	loader := e.Flags.ToRawKubeConfigLoader()
	config, err := e.Flags.ToRESTConfig()
	if err != nil {
		return nil, Unconfigured(err)
	}
	raw, err := loader.RawConfig()
	if err != nil {
		return nil, Unconfigured(err)
	}
	// kubectl's default of localhost:8080 helps nobody: it is what is left when nothing says which cluster.
	if strings.HasSuffix(config.Host, "localhost:8080") && len(raw.Clusters) == 0 && *e.Flags.APIServer == "" {
		return nil, &Failure{Err: errNoCluster, Next: "--kubeconfig or KUBECONFIG names the file that says which", Code: ExitUnavailable}
	}
	return config, nil
}

// Client is a client of the cluster that the flags name, for Kubernetes' own kinds and ours. It is made once, and asks nothing of
// the cluster before its first use.
func (e *Env) Client() (client.WithWatch, error) {
	if e.client != nil {
		return e.client, nil
	}
	log.SetLogger(logr.Discard()) // what happens is said by us
	config, err := e.Config()
	if err != nil {
		return nil, err
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: Scheme})
	if err != nil {
		return nil, Unconfigured(err)
	}
	e.client = c
	return c, nil
}

// Say writes a line for the person, on stderr, where nothing in it commands a terminal.
func (e *Env) Say(format string, args ...any) {
	_, _ = fmt.Fprintln(e.ErrOut, Text(fmt.Sprintf(format, args...)))
}

// Use has the commands work with this client, which is a test's.
func (e *Env) Use(c client.WithWatch) { e.client = c }

// Command is a command line of ours, as the person would type it.
func (e *Env) Command(args ...string) string {
	line := e.Program + " " + strings.Join(args, " ")
	if f := e.bound; f != nil {
		for _, name := range []string{"namespace", "context", "kubeconfig"} {
			if flag := f.Lookup(name); flag.Changed {
				line += " --" + name + " " + quoted(flag.Value.String())
			}
		}
	}
	return strings.ReplaceAll(line, " --namespace ", " -n ")
}

// quoted is a word for a shell.
func quoted(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@=+,~", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
