package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

const (
	// SystemNamespace is where the controller lives.
	SystemNamespace = "hearth-system"
	// Controller is the name of its Deployment and of its folder in images/.
	Controller = "controller"
	// ControllerAccount is the name of its service account.
	ControllerAccount = "hearth-controller"

	kustomization = "kustomization.yaml"
	// digestAnnotation on the controller's Pods makes a new image under the same tag roll out.
	digestAnnotation = "image-digest"
	installLimit     = 2 * time.Minute
)

// Install applies dist/install.yaml and waits until the controller is up and its webhooks answer. digests is what LoadImages returned.
func (c *Cluster) Install(ctx context.Context, root string, digests map[string]string) error {
	objects, err := Read(filepath.Join(root, "dist", "install.yaml"))
	if err != nil {
		return err
	}
	return c.install(ctx, objects, func(deployment *unstructured.Unstructured) error { return stamp(deployment, digests[Controller]) })
}

// InstallTag applies config/ of another version's sources, with the controller's image of that tag, and waits as Install does.
func (c *Cluster) InstallTag(ctx context.Context, sources, tag string) error {
	files, err := resources(filepath.Join(sources, "config"))
	if err != nil {
		return err
	}
	objects, err := Read(files...)
	if err != nil {
		return err
	}
	return c.install(ctx, objects, func(deployment *unstructured.Unstructured) error { return retag(deployment, tag) })
}

func (c *Cluster) install(ctx context.Context, objects []*unstructured.Unstructured, change func(deployment *unstructured.Unstructured) error) error {
	var deployments []client.ObjectKey
	for _, object := range objects {
		if object.GetKind() != "Deployment" {
			continue
		}
		if err := change(object); err != nil {
			return err
		}
		deployments = append(deployments, client.ObjectKey{Namespace: SystemNamespace, Name: object.GetName()})
	}
	if len(deployments) == 0 {
		return errors.New("install: expected a Deployment among the manifests")
	}
	if err := c.Apply(ctx, SystemNamespace, objects...); err != nil {
		return err
	}
	for _, deployment := range deployments {
		if err := c.WaitAvailable(ctx, deployment); err != nil {
			return err
		}
	}
	return c.WaitAdmission(ctx)
}

// retag gives each container's image that tag.
func retag(deployment *unstructured.Unstructured, tag string) error {
	containers, _, err := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	if err != nil {
		return err
	}
	for _, c := range containers {
		container, _ := c.(map[string]any)
		image, _ := container["image"].(string)
		name, found := strings.CutSuffix(image, ":dev")
		if !found {
			return fmt.Errorf("%s: expected an image with the tag dev, got %q", describe(deployment), image)
		}
		container["image"] = name + ":" + tag
	}
	return unstructured.SetNestedSlice(deployment.Object, containers, "spec", "template", "spec", "containers")
}

// resources are the files that a kustomization names, by itself or by directories with one: what people install.
func resources(dir string) ([]string, error) {
	file := filepath.Join(dir, kustomization)
	content, err := os.ReadFile(file) // #nosec G304 -- the project's own manifests
	if err != nil {
		return nil, err
	}
	var named struct {
		Resources []string `json:"resources"`
	}
	if err := yaml.Unmarshal(content, &named); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var files []string
	for _, name := range named.Resources {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err != nil {
			return nil, err
		} else if !info.IsDir() {
			files = append(files, path)
			continue
		}
		below, err := resources(path)
		if err != nil {
			return nil, err
		}
		files = append(files, below...)
	}
	return files, nil
}

func stamp(deployment *unstructured.Unstructured, digest string) error {
	if digest == "" {
		return nil
	}
	return unstructured.SetNestedField(deployment.Object, digest, "spec", "template", "metadata", "annotations", digestAnnotation)
}

// WaitAvailable waits until a Deployment is rolled out and its Pods are up.
func (c *Cluster) WaitAvailable(ctx context.Context, key client.ObjectKey) error {
	return c.Wait(ctx, "Deployment "+key.String(), installLimit, func(ctx context.Context) (bool, string, error) {
		var found appsv1.Deployment
		if err := c.Client.Get(ctx, key, &found); err != nil {
			return false, "", err
		}
		s := found.Status
		state := fmt.Sprintf("%d of %d replicas are new, %d available", s.UpdatedReplicas, s.Replicas, s.AvailableReplicas)
		rolledOut := s.ObservedGeneration >= found.Generation && s.UpdatedReplicas == s.Replicas && s.AvailableReplicas == s.Replicas
		return rolledOut && s.Replicas > 0, state, nil
	})
}

// WaitAdmission waits until a sparse run for an Agent that does not exist is refused by our webhooks and with their code. Nothing is stored.
func (c *Cluster) WaitAdmission(ctx context.Context) error {
	return c.Wait(ctx, "admission", installLimit, func(ctx context.Context) (bool, string, error) {
		run := &hearthv1.AgentRun{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "probe-", Namespace: SystemNamespace},
			Spec:       hearthv1.AgentRunSpec{AgentRef: hearthv1.AgentRef{Name: "no-such-agent"}},
		}
		err := c.Client.Create(ctx, run, client.DryRunAll)
		switch {
		case err == nil:
			return false, "", errors.New("a run for a missing Agent was admitted")
		case strings.Contains(err.Error(), "[MissingAgent]"):
			return true, "answers", nil
		default:
			return false, "", err
		}
	})
}
