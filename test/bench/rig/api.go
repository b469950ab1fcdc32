package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/test/apiserver"
)

// What config/ calls its objects.
const (
	system         = "hearth-system"
	serviceAccount = "hearth-controller"
	webhookService = "hearth-webhook"
	admission      = "hearth-admission"
)

// startAPI starts etcd, with its data on a disk and waiting for it, and kube-apiserver.
func (r *Rig) startAPI(ctx context.Context) error {
	assets := os.Getenv(apiserver.AssetsEnv)
	if _, err := os.Stat(filepath.Join(assets, "kube-apiserver")); assets == "" || err != nil {
		return fmt.Errorf("%s=%q has no kube-apiserver: run `make envtest-assets` and set it to the directory that is printed (`make bench` does both)", apiserver.AssetsEnv, assets)
	}
	assets, err := r.mortal(assets)
	if err != nil {
		return err
	}
	existing := false
	r.env = &envtest.Environment{
		UseExistingCluster: &existing, BinaryAssetsDirectory: assets,
		CRDInstallOptions:        envtest.CRDInstallOptions{Paths: []string{filepath.Join(r.root, "config", "crd")}, ErrorIfPathMissing: true, MaxTime: patience},
		ControlPlaneStartTimeout: patience,
		ControlPlaneStopTimeout:  patience,
	}
	api := r.env.ControlPlane.GetAPIServer()
	r.env.ControlPlane.Etcd = &envtest.Etcd{DataDir: r.path("etcd")}
	if err := os.Mkdir(r.path("etcd"), 0o700); err != nil {
		return err
	}
	if !r.options.NoFsync {
		r.env.ControlPlane.Etcd.Configure().Disable("unsafe-no-fsync")
	}
	for flag, value := range r.options.Etcd {
		r.env.ControlPlane.Etcd.Configure().Set(flag, value)
	}
	for flag, value := range r.options.APIServer {
		api.Configure().Set(flag, value)
	}
	config, err := r.env.Start()
	if err != nil {
		return fmt.Errorf("etcd and kube-apiserver: %w", err)
	}
	config.QPS = -1
	r.Config = config
	scheme, err := Scheme()
	if err != nil {
		return err
	}
	if r.Client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	if r.Kubeconfig, err = r.writeConfig("admin", clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}); err != nil {
		return err
	}
	children, err := childrenNamed("etcd", "kube-apiserver")
	r.Etcd, r.APIServer = children["etcd"], children["kube-apiserver"]
	return errors.Join(err, ctx.Err())
}

// mortal is a directory of programs that start the same ones and end with who started them, also by SIGKILL: envtest's own would stay, and
// take the machine's time from whoever measures next.
func (r *Rig) mortal(assets string) (string, error) {
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		return assets, nil //nolint:nilerr // without it they stay
	}
	dir := r.path("assets")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	for _, name := range []string{"etcd", "kube-apiserver"} {
		script := fmt.Sprintf("#!/bin/sh\nexec %s --pdeathsig KILL -- '%s' \"$@\"\n", setpriv, filepath.Join(assets, name))
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700); err != nil { //nolint:gosec // a program
			return "", err
		}
	}
	return dir, nil
}

// EtcdURL is where etcd answers, in the clear.
func (r *Rig) EtcdURL() string { return r.env.ControlPlane.GetAPIServer().EtcdURL.String() }

// install applies what a user installs, and has the webhooks' Service mean a port of this machine.
func (r *Rig) install(ctx context.Context) (err error) {
	for _, part := range []string{"rbac", "webhook"} {
		if err := apiserver.Apply(ctx, r.Config, filepath.Join(r.root, "config", part)); err != nil {
			return err
		}
	}
	if r.port, err = freePort(ctx); err != nil {
		return err
	}
	at := ptr.To(int32(r.port))
	service := &corev1.Service{}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: system, Name: webhookService}, service); err != nil {
		return fmt.Errorf("the webhooks' Service: %w", err)
	}
	service.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"}
	if err := r.Client.Update(ctx, service); err != nil {
		return fmt.Errorf("the webhooks' Service: %w", err)
	}
	var m admissionregistrationv1.MutatingWebhookConfiguration
	var v admissionregistrationv1.ValidatingWebhookConfiguration
	if err := errors.Join(r.Client.Get(ctx, client.ObjectKey{Name: admission}, &m), r.Client.Get(ctx, client.ObjectKey{Name: admission}, &v)); err != nil {
		return fmt.Errorf("the webhooks' configuration: %w", err)
	}
	for i := range m.Webhooks {
		m.Webhooks[i].ClientConfig.Service.Port = at
	}
	for i := range v.Webhooks {
		v.Webhooks[i].ClientConfig.Service.Port = at
	}
	if err := errors.Join(r.Client.Update(ctx, &m), r.Client.Update(ctx, &v)); err != nil {
		return fmt.Errorf("the webhooks' configuration: %w", err)
	}
	return r.token(ctx)
}

// token lets the controller in as its ServiceAccount, as in a Pod: no certificate and no impersonation.
func (r *Rig) token(ctx context.Context) error {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: serviceAccount}}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](24 * 60 * 60)}}
	if err := r.Client.SubResource("token").Create(ctx, account, request); err != nil {
		return fmt.Errorf("the controller's token: %w", err)
	}
	var err error
	r.kubeconfig, err = r.writeConfig("controller", clientcmdapi.AuthInfo{Token: request.Status.Token})
	return err
}

// admits tells whether the webhooks answer: a run of no Agent is refused as only they do.
func (r *Rig) admits(ctx context.Context) bool {
	err := r.Client.Create(ctx, &hearthv1.AgentRun{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "work"},
		Spec: hearthv1.AgentRunSpec{AgentRef: hearthv1.AgentRef{Name: "nobody"}}}, client.DryRunAll)
	return err != nil && strings.Contains(err.Error(), string("["+hearthv1.RefusalMissingAgent+"]"))
}

func (r *Rig) writeConfig(name string, user clientcmdapi.AuthInfo) (string, error) {
	return writeConfig(r.path(name+".kubeconfig"), r.Config, user)
}

func writeConfig(file string, c *rest.Config, user clientcmdapi.AuthInfo) (string, error) {
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:  map[string]*clientcmdapi.Cluster{"bench": {Server: c.Host, CertificateAuthorityData: c.CAData}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"bench": &user},
		Contexts:  map[string]*clientcmdapi.Context{"bench": {Cluster: "bench", AuthInfo: "bench"}}, CurrentContext: "bench",
	}, file)
	if err != nil {
		return "", fmt.Errorf("write %s: %w", file, err)
	}
	return file, nil
}
