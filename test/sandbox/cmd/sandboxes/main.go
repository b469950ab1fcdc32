// sandboxes runs the double of package test/sandbox against the cluster of $KUBECONFIG, or the one it is a Pod of.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/hearthdev/hearth/controller/sandbox"
	double "github.com/hearthdev/hearth/test/sandbox"
)

func main() {
	install := flag.Bool("install", false, "apply the CRD first")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := serve(ctx, *install); err != nil {
		fmt.Fprintln(os.Stderr, "sandboxes:", err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, install bool) error {
	ctrl.SetLogger(logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, nil)))
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("find the API server: %w", err)
	}
	if install {
		if err := double.Install(ctx, config); err != nil {
			return err
		}
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, sandbox.AddToScheme} {
		if err := add(scheme); err != nil {
			return fmt.Errorf("types: %w", err)
		}
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: "0"},
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&sandbox.Sandbox{}, &corev1.Pod{}, &corev1.Service{}}}},
	})
	if err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	if err := (&double.Double{Client: mgr.GetClient()}).SetupWithManager(mgr); err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	fmt.Println("sandboxes: serving")
	return mgr.Start(ctx)
}
