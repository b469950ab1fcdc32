package rig

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/pod"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/test/faults/netfault"
)

const (
	terminationLog = "termination"
	// behind is what is added to the delivery port's number for where the harness listens, behind the Pod's proxy.
	behind = 10_000
	// separate are the namespaces of a container.
	separate = syscall.CLONE_NEWUTS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNS
)

// boot starts the container's process with what its Pod says.
func (p *Pod) boot(ctx context.Context, object *corev1.Pod) error {
	i := slices.IndexFunc(object.Spec.Containers, func(c corev1.Container) bool { return c.Name == hearthv1.AgentContainer })
	if i < 0 {
		return fmt.Errorf("container %s is not there", hearthv1.AgentContainer)
	}
	c := &object.Spec.Containers[i]
	port := deliveryPort(c)
	if err := p.place(ctx, port); err != nil {
		return err
	}
	env, err := p.environment(ctx, object, c, port)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process != nil {
		p.restarts++
	}
	p.boots++
	dir := filepath.Join(p.dir, "boot"+strconv.Itoa(p.boots))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("boot: %w", err)
	}
	var x *process
	socket, err := asks(ctx, dir, func(h *Hit) { h.Pod, h.process = p, p.booted(&x) }, &p.points)
	if err != nil {
		return err
	}
	args := append([]string{wire.Hostname(p.Name), p.node.world.built.harness}, c.Args...)
	x, err = startProcess(append(env, socketVariable+"="+socket), separate, p.log, p.node.world.built.contains, args...)
	if err != nil {
		return fmt.Errorf("boot: %w", err)
	}
	p.process, p.counted, p.since = x, false, time.Now()
	go func() {
		<-x.done
		p.mu.Lock()
		p.ends = append(p.ends, agentEnd{at: time.Now()})
		p.mu.Unlock()
		p.wake()
	}()
	return nil
}

// booted is a process that was started under the lock.
func (p *Pod) booted(x **process) *process {
	p.mu.Lock()
	defer p.mu.Unlock()
	return *x
}

// place gives the Pod its directory, its address and its proxy, once.
func (p *Pod) place(ctx context.Context, port int) error {
	if p.IP != "" {
		return nil
	}
	for _, dir := range []string{p.dir, p.Data()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("place: %w", err)
		}
	}
	ip, err := address(ctx, hearthv1.PortACPNumber, port, port+behind)
	if err != nil {
		return err
	}
	proxy, err := netfault.New(at(ip, port), at(ip, port+behind))
	if err != nil {
		return fmt.Errorf("place: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.IP, p.Proxy = ip, proxy
	return nil
}

func at(ip string, port int) string { return net.JoinHostPort(ip, strconv.Itoa(port)) }

func deliveryPort(c *corev1.Container) int {
	for _, port := range c.Ports {
		if port.Name == wire.PortName {
			return int(port.ContainerPort)
		}
	}
	return wire.DefaultPort
}

// environment is the container's, with addresses and paths of this machine.
func (p *Pod) environment(ctx context.Context, object *corev1.Pod, c *corev1.Container, port int) ([]string, error) {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.dir}
	for _, e := range c.Env {
		value, err := p.value(ctx, object, e)
		if err != nil {
			return nil, err
		}
		switch e.Name {
		case pod.EnvACP:
			value = at(p.IP, hearthv1.PortACPNumber)
		case pod.EnvDelivery:
			value = at(p.IP, port+behind)
		case pod.EnvDataDir:
			value = p.Data()
		case pod.EnvGoalFile:
			if value, err = p.goal(ctx, object); err != nil {
				return nil, err
			}
		}
		env = append(env, e.Name+"="+value)
	}
	if slices.Contains(c.Args, "run") {
		env = append(env, pod.EnvTerminationLog+"="+filepath.Join(p.dir, terminationLog))
	}
	return env, nil
}

// value is what a variable comes to.
func (p *Pod) value(ctx context.Context, object *corev1.Pod, e corev1.EnvVar) (string, error) {
	switch from := e.ValueFrom; {
	case from == nil:
		return e.Value, nil
	case from.FieldRef != nil:
		fields := map[string]string{"metadata.namespace": object.Namespace, "metadata.name": object.Name, "metadata.uid": string(object.UID), "status.podIP": p.IP}
		return fields[from.FieldRef.FieldPath], nil
	case from.SecretKeyRef != nil:
		return p.secret(ctx, from.SecretKeyRef.Name, from.SecretKeyRef.Key)
	}
	return "", fmt.Errorf("variable %s: the node knows values, fields and Secrets only", e.Name)
}

func (p *Pod) secret(ctx context.Context, name, key string) (string, error) {
	var s corev1.Secret
	if err := p.node.admin.Get(ctx, client.ObjectKey(types.NamespacedName{Namespace: p.node.world.Namespace, Name: name}), &s); err != nil {
		return "", fmt.Errorf("secret %q not found: %w", name, err)
	}
	value, ok := s.Data[key]
	if !ok {
		return "", fmt.Errorf("couldn't find key %s in Secret %s", key, name)
	}
	return string(value), nil
}

// goal writes the goal's file, which is a volume of a Secret.
func (p *Pod) goal(ctx context.Context, object *corev1.Pod) (string, error) {
	for _, v := range object.Spec.Volumes {
		if v.Name != pod.VolumeGoal || v.Secret == nil {
			continue
		}
		text, err := p.secret(ctx, v.Secret.SecretName, hearthv1.SecretGoal)
		if err != nil {
			return "", err
		}
		path := filepath.Join(p.dir, hearthv1.SecretGoal)
		return path, os.WriteFile(path, []byte(text), 0o600)
	}
	return "", fmt.Errorf("volume %s is not there", pod.VolumeGoal)
}
