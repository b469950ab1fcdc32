package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/test/cluster"
)

const (
	image = "localhost/hearth-agent-goose:dev"
	user  = 65532   // the image's
	alone = "alone" // the Agent whose runs get a Pod each

	readyLimit = 2 * time.Minute
	goneLimit  = 2 * time.Minute
)

// scene is a namespace with a scripted model and an Agent whose runs get a Pod each.
type scene struct {
	*cluster.Cluster
	namespace, model string
	runs             watch.Interface // of the namespace, from the beginning
	n                int             // of names so far
}

// open brings everything in that is measured. What it made close removes, also after an error.
func open(ctx context.Context) (*scene, error) {
	c, err := cluster.Ensure(ctx, ".", os.Getenv, os.Stderr)
	if err != nil {
		return nil, err
	}
	digests, err := c.LoadImages(ctx, ".", cluster.Controller, "agent-goose", "llm")
	if err != nil {
		return nil, err
	}
	if err := c.Install(ctx, ".", digests); err != nil {
		return nil, err
	}
	s := &scene{Cluster: c, namespace: "bench-cold-" + rand.String(5)}
	if err := s.furnish(ctx); err != nil {
		s.Explain(context.WithoutCancel(ctx), os.Stderr, s.namespace)
		return nil, errors.Join(err, s.close(ctx))
	}
	return s, nil
}

func (s *scene) furnish(ctx context.Context) error {
	if err := s.Namespace(ctx, s.namespace); err != nil {
		return err
	}
	var err error
	if s.model, err = s.Model(ctx, s.namespace); err != nil {
		return err
	}
	if s.runs, err = s.Client.Watch(ctx, &hearthv1.AgentRunList{}, client.InNamespace(s.namespace)); err != nil {
		return fmt.Errorf("watch runs: %w", err)
	}
	return s.create(ctx, s.agent(alone, hearthv1.AgentModeTask))
}

func (s *scene) create(ctx context.Context, object client.Object) error {
	if err := s.Client.Create(ctx, object); err != nil {
		return fmt.Errorf("create %s: %w", object.GetName(), err)
	}
	return nil
}

// raise makes an Agent that stands, and waits until it does.
func (s *scene) raise(ctx context.Context, name string) error {
	if err := s.create(ctx, s.agent(name, hearthv1.AgentModeService)); err != nil {
		return err
	}
	return s.Wait(ctx, "Agent "+name, readyLimit, func(ctx context.Context) (bool, string, error) {
		var agent hearthv1.Agent
		if err := s.Client.Get(ctx, s.key(name), &agent); err != nil {
			return false, "", err
		}
		ready := cluster.Condition(agent.Status.Conditions, hearthv1.AgentConditionReady)
		return ready.Status == metav1.ConditionTrue, "Ready is " + string(ready.Status) + " " + ready.Reason, nil
	})
}

// fell removes it, and waits until its Pod is no more.
func (s *scene) fell(ctx context.Context, name string) error {
	agent := &hearthv1.Agent{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	if err := s.Client.Delete(ctx, agent); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete Agent %s: %w", name, err)
	}
	return s.Wait(ctx, "end of Agent "+name, goneLimit, func(ctx context.Context) (bool, string, error) {
		var pods corev1.PodList
		err := s.Client.List(ctx, &pods, client.InNamespace(s.namespace), client.MatchingLabels{hearthv1.LabelAgent: name})
		return err == nil && len(pods.Items) == 0, fmt.Sprintf("%d Pods left", len(pods.Items)), err
	})
}

func (s *scene) agent(name string, mode hearthv1.AgentMode) *hearthv1.Agent {
	agent := &hearthv1.Agent{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec: hearthv1.AgentSpec{
			Mode: mode, GoalTemplate: "${task}",
			Runtime:  hearthv1.AgentRuntime{Command: []string{"goose", "acp"}, Permissions: hearthv1.Permissions{Policy: hearthv1.PermissionAllow}},
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{s.container()}}},
		},
	}
	if mode == hearthv1.AgentModeService {
		agent.Spec.Runtime.Delivery = &hearthv1.DeliveryRuntime{}
	}
	return agent
}

// container is the same for all that is compared: image, model and environment.
func (s *scene) container() corev1.Container {
	return corev1.Container{
		Name: hearthv1.AgentContainer, Image: image, ImagePullPolicy: corev1.PullIfNotPresent,
		Env: []corev1.EnvVar{
			{Name: "GOOSE_PROVIDER", Value: "openai"}, {Name: "GOOSE_MODEL", Value: "test-model"},
			{Name: "OPENAI_API_KEY", Value: "x"}, {Name: "OPENAI_HOST", Value: s.model},
		},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("250m"), corev1.ResourceMemory: resource.MustParse("192Mi"),
		}},
	}
}

// pod is the quickest Pod of that image: goose gets the goal on its command line, and nothing is beside it. It is as hardened as those
// of AgentRuns are.
func (s *scene) pod(name, goal string) *corev1.Pod {
	c := s.container()
	c.Command = []string{"goose", "run", "--no-session", "--quiet", "--text", goal}
	c.SecurityContext = &corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	c.Env = append(c.Env, corev1.EnvVar{Name: "HOME", Value: "/home/agent"})
	spec := corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: ptr.To(false), EnableServiceLinks: ptr.To(false),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](user), FSGroup: ptr.To[int64](user), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	}
	for name, path := range map[string]string{"tmp": "/tmp", "home": "/home/agent"} {
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: path})
	}
	spec.Containers = []corev1.Container{c}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}, Spec: spec}
}

// close removes the namespace and waits until nothing of it runs any more.
func (s *scene) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), goneLimit)
	defer cancel()
	if s.runs != nil {
		s.runs.Stop()
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	if err := s.Client.Delete(ctx, namespace); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete namespace %s: %w", s.namespace, err)
	}
	return s.Wait(ctx, "end of namespace "+s.namespace, goneLimit, func(ctx context.Context) (bool, string, error) {
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(namespace), namespace)
		return apierrors.IsNotFound(err), "gone or going", client.IgnoreNotFound(err)
	})
}

func (s *scene) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: s.namespace, Name: name}
}

// name is one that was not used before; a mark, a run and a Pod are called so. It does not end in a dash and a number, as those of the
// runs that the controller makes do: admission looks longer at those.
func (s *scene) name(kind string) string {
	s.n++
	return fmt.Sprintf("%s-n%d", kind, s.n)
}
