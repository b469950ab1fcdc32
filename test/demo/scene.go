package main

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/test/cluster"
)

const (
	systemNamespace = "hearth-system"
	demoNamespace   = "hearth-demo"
	agentName       = "reviewer"
	providerSecret  = "provider"
	agentImage      = "agent-goose"

	// madeFrom stamps the Agent's template, so that a new image or provider gets a new Pod.
	madeFrom = "demo/made-from"

	readyLimit = 2 * time.Minute
	goneLimit  = 3 * time.Minute
)

// ofDemo labels the runs that the demo makes.
var ofDemo = map[string]string{"demo": "review"}

//go:embed reviewer.yaml
var reviewer []byte

// prepare brings everything in that the runs need and waits until the agent stands.
func prepare(ctx context.Context, c *cluster.Cluster, p provider) error {
	digests, err := c.LoadImages(ctx, ".", "controller", agentImage, "llm")
	if err != nil {
		return err
	}
	if err := c.Install(ctx, ".", digests); err != nil {
		return err
	}
	if err := c.Namespace(ctx, demoNamespace); err != nil {
		return err
	}
	if p.scripted {
		if p.values["OPENAI_HOST"], err = c.Model(ctx, demoNamespace); err != nil {
			return err
		}
	}
	secret, err := writeProvider(ctx, c.Client, p)
	if err != nil {
		return err
	}
	// The Secret's version changes exactly when its content does, and tells nothing of it.
	if err := applyAgent(ctx, c, digests[agentImage]+"/"+secret); err != nil {
		return err
	}
	if err := forget(ctx, c.Client); err != nil {
		return err
	}
	return standing(ctx, c)
}

// forget deletes the records of earlier demos; runs that somebody else made stay.
func forget(ctx context.Context, c client.Client) error {
	err := c.DeleteAllOf(ctx, &hearthv1.AgentRun{}, client.InNamespace(demoNamespace), client.MatchingLabels(ofDemo))
	if err != nil {
		return fmt.Errorf("delete the runs of earlier demos: %w", err)
	}
	return nil
}

// writeProvider stores the agent's environment and returns the Secret's version.
func writeProvider(ctx context.Context, c client.Client, p provider) (string, error) {
	secret := &corev1.Secret{}
	secret.Namespace, secret.Name = demoNamespace, providerSecret
	_, err := controllerutil.CreateOrUpdate(ctx, c, secret, func() error {
		secret.Data = map[string][]byte{}
		for name, value := range p.values {
			secret.Data[name] = []byte(value)
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("write Secret %s: %w", providerSecret, err)
	}
	return secret.ResourceVersion, nil
}

// applyAgent applies the Agent; one that an earlier demo made from something else goes first.
func applyAgent(ctx context.Context, c *cluster.Cluster, stamp string) error {
	objects, err := cluster.Parse(reviewer)
	if err != nil {
		return fmt.Errorf("reviewer.yaml: %w", err)
	}
	for _, o := range objects {
		if err := unstructured.SetNestedStringMap(o.Object, map[string]string{madeFrom: stamp}, "spec", "template", "metadata", "annotations"); err != nil {
			return fmt.Errorf("reviewer.yaml: %w", err)
		}
	}
	old := &hearthv1.Agent{}
	err = c.Client.Get(ctx, client.ObjectKey{Namespace: demoNamespace, Name: agentName}, old)
	if err == nil && old.Spec.Template.Annotations[madeFrom] != stamp {
		err = removeAgent(ctx, c, old)
	}
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	return c.Apply(ctx, demoNamespace, objects...)
}

// removeAgent deletes an Agent and waits until its Pods, which would be taken for the new one's, are gone.
func removeAgent(ctx context.Context, c *cluster.Cluster, agent *hearthv1.Agent) error {
	if err := c.Client.Delete(ctx, agent); client.IgnoreNotFound(err) != nil {
		return err
	}
	return c.Wait(ctx, "end of an earlier demo's agent", goneLimit, func(ctx context.Context) (bool, string, error) {
		var pods corev1.PodList
		if err := c.Client.List(ctx, &pods, client.InNamespace(demoNamespace), client.MatchingLabels{hearthv1.LabelAgent: agentName}); err != nil {
			return false, "", err
		}
		err := c.Client.Get(ctx, client.ObjectKeyFromObject(agent), agent)
		gone := apierrors.IsNotFound(err) && len(pods.Items) == 0
		return gone, fmt.Sprintf("%d Pods left", len(pods.Items)), client.IgnoreNotFound(err)
	})
}

func standing(ctx context.Context, c *cluster.Cluster) error {
	return c.Wait(ctx, "standing agent "+agentName, readyLimit, func(ctx context.Context) (bool, string, error) {
		agent := &hearthv1.Agent{}
		if err := c.Client.Get(ctx, client.ObjectKey{Namespace: demoNamespace, Name: agentName}, agent); err != nil {
			return false, "", err
		}
		ready := cluster.Condition(agent.Status.Conditions, hearthv1.AgentConditionReady)
		if ready.Reason == hearthv1.ReasonInvalidTemplate {
			return false, ready.Reason, cluster.Stop(fmt.Errorf("%s: %s", ready.Reason, ready.Message))
		}
		if ready.Status != "True" || ready.ObservedGeneration != agent.Generation {
			return false, reasonOf(ready.Reason), nil
		}
		return true, ready.Reason, nil
	})
}

func reasonOf(reason string) string {
	if reason == "" {
		return "not looked at yet"
	}
	return reason
}
