package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hearthdev/hearth/cli/doctor"
	"github.com/hearthdev/hearth/cli/kube"
	"github.com/hearthdev/hearth/internal/version"
)

// askTime is how long the cluster may take to say what it runs.
const askTime = 5 * time.Second

func newVersion(env *kube.Env) *cobra.Command {
	var alone bool
	c := &cobra.Command{
		Use: "version", Short: "print the version of this program, and the controller's image", Args: cobra.NoArgs,
		Long: `version prints the version of this program on stdout, and beside it which image the cluster's controller is, where you may know that.
That the cluster does not say is no error.`,
		RunE: func(c *cobra.Command, _ []string) error {
			if _, err := fmt.Fprintln(env.Out, version.Of()); err != nil || alone {
				return err
			}
			env.Say("controller: %s", controller(c.Context(), env))
			return nil
		},
	}
	c.Flags().BoolVar(&alone, "client", false, "ask no cluster")
	return c
}

// controller says which images the cluster's controllers are, in words.
func controller(ctx context.Context, env *kube.Env) string {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	c, err := env.Client()
	if err != nil {
		return "not known: " + kube.Line(err.Error())
	}
	var all appsv1.DeploymentList
	labels := client.MatchingLabels(doctor.ControllerLabels())
	err = c.List(ctx, &all, labels)
	if apierrors.IsForbidden(err) {
		err = c.List(ctx, &all, labels, client.InNamespace(doctor.SystemNamespace))
	}
	switch {
	case apierrors.IsForbidden(err):
		return "not known: it takes the right to list Deployments"
	case err != nil:
		return "not known: " + kube.Line(env.Explain(err).Error())
	case len(all.Items) == 0:
		return "none found"
	}
	var found []string
	for i := range all.Items {
		d := &all.Items[i]
		for _, container := range d.Spec.Template.Spec.Containers {
			if container.Name == "controller" {
				found = append(found, fmt.Sprintf("%s (%s/%s, %d of %d ready)", container.Image, d.Namespace, d.Name, d.Status.ReadyReplicas, d.Status.Replicas))
			}
		}
	}
	return kube.Line(strings.Join(found, ", "))
}
