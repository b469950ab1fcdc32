//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/rand"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/hearthdev/hearth/test/cluster"
)

const (
	// envReady says that images and controller are in the cluster already.
	envReady = "HEARTH_E2E_READY"
	// envKeep keeps the namespaces, to look at them afterwards.
	envKeep = "HEARTH_E2E_KEEP"
	// envRemote pretends that the node is another machine.
	envRemote = "HEARTH_E2E_REMOTE"
	// envStranger makes this binary the stranger of TestStranger, which keeps what it hears in that directory.
	envStranger = "HEARTH_E2E_STRANGER"
	// envStrangerPort is the port it takes, envStrangerKind what it does there.
	envStrangerPort = "HEARTH_E2E_STRANGER_PORT"
	envStrangerKind = "HEARTH_E2E_STRANGER_KIND"
	// envWiretap makes this binary the wiretap of TestTheGoalIsNotOnTheWire, which keeps what goes over the delivery port in that file.
	envWiretap = "HEARTH_E2E_WIRETAP"
	// envThief makes this binary the thief of TestAgentCannotReadTheSecret, which looks for secrets of those hashes.
	envThief = "HEARTH_E2E_THIEF"

	setupLimit = 30 * time.Minute
	agentImage = "localhost/hearth-agent-goose:dev"
)

// suite is what all cases share.
var suite struct {
	*cluster.Cluster
	// id is in the names of this suite's namespaces.
	id string
	// root is the project's directory, since when the cluster was up and nothing was installed by us.
	root  string
	since time.Time
	// digests are those of the images under test.
	digests map[string]string
	// apart are the times in which another controller, or none, was installed.
	apart []span
	// model is the scripted model's address, modelNamespace where it runs.
	model, modelNamespace string
	// cli is where buildCLI, which does it once, puts cmd/hearth.
	cli      string
	buildCLI func() error
}

func TestMain(m *testing.M) {
	if dir := os.Getenv(envStranger); dir != "" {
		os.Exit(beStranger(dir))
	}
	if wanted := os.Getenv(envThief); wanted != "" {
		os.Exit(beThief(wanted))
	}
	if file := os.Getenv(envWiretap); file != "" {
		os.Exit(beWiretap(file))
	}
	ctrl.SetLogger(logr.Discard()) // of the double of TestSandbox
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	started := time.Now()
	if err := setup(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "e2e: setup after %s: %v\n", time.Since(started).Round(time.Second), err)
		stop()
		os.Exit(1)
	}
	fmt.Fprintf(os.Stderr, "e2e: ready after %s\n", time.Since(started).Round(time.Second))
	code := withCLI(m.Run)
	if !rightsWereUsed(suite.root, suite.since) {
		code = 1
	}
	if os.Getenv(envKeep) == "" {
		deleteNamespace(ctx, suite.modelNamespace)
	}
	stop()
	os.Exit(code)
}

// withCLI runs the cases with a place for cmd/hearth, which the first one that wants it builds.
func withCLI(run func() int) int {
	dir, err := os.MkdirTemp("", "hearth-e2e-")
	if err != nil {
		fmt.Fprintf(os.Stderr, "e2e: %v\n", err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	suite.cli = filepath.Join(dir, "hearth")
	suite.buildCLI = sync.OnceValue(func() error {
		out, err := exec.Command("go", "build", "-o", suite.cli, "../../cmd/hearth").CombinedOutput() //nolint:gosec,noctx // the project's own program, for every case
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	return run()
}

// setup brings up what is missing and shows what it waits for.
func setup(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, setupLimit)
	defer cancel()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		return err
	}
	suite.root = root
	suite.Cluster, err = cluster.Ensure(ctx, root, os.Getenv, os.Stderr)
	if err != nil {
		return err
	}
	suite.since = time.Now()
	if os.Getenv(envReady) == "" {
		suite.digests, err = suite.LoadImages(ctx, root, cluster.Controller, "agent-goose", "llm")
		if err != nil {
			return err
		}
		if err := suite.Install(ctx, root, suite.digests); err != nil {
			suite.Explain(ctx, os.Stderr, cluster.SystemNamespace)
			return err
		}
	}
	suite.id = rand.String(5)
	suite.modelNamespace = "e2e-" + suite.id + "-model"
	if err := suite.Namespace(ctx, suite.modelNamespace); err != nil {
		return err
	}
	suite.model, err = suite.Model(ctx, suite.modelNamespace)
	if err != nil {
		suite.Explain(ctx, os.Stderr, suite.modelNamespace)
	}
	return err
}
