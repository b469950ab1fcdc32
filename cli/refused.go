package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/cli/kube"
)

// refused explains why a run was not created.
func refused(ctx context.Context, env *kube.Env, namespace, agent string, err error) error {
	var asked *url.Error
	causes := causes(err)
	switch {
	case len(causes) > 0:
		return &kube.Failure{Err: errors.New(sentences(causes)), Next: next(ctx, env, namespace, agent, causes), Code: kube.ExitRefused}
	case apierrors.IsAlreadyExists(err):
		return &kube.Failure{Err: err, Next: "--name chooses another; without it a free one is made", Code: kube.ExitRefused}
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsConflict(err), apierrors.IsRequestEntityTooLargeError(err):
		return &kube.Failure{Err: err, Code: kube.ExitRefused}
	case apierrors.IsNotFound(err) && kube.Code(env.Explain(err)) == kube.ExitFailed: // the namespace
		return &kube.Failure{Err: err, Next: "-n chooses another namespace", Code: kube.ExitUnavailable}
	case errors.As(err, &asked) && asked.Op == "Post":
		// What was sent may have arrived, and only the answer got lost. To ask again could do the work twice.
		unknown := &kube.Failure{Err: fmt.Errorf("the API server did not answer, and whether the run was created is not known: %w", err),
			Next: env.Command("runs", agent) + " shows whether there is one", Code: kube.ExitUnavailable}
		if ctx.Err() != nil {
			unknown.Code = kube.ExitInterrupted
		}
		return unknown
	}
	return env.Explain(err)
}

// causes are those of a refusal that name a field: of admission and of the schema. A missing right has none.
func causes(err error) []metav1.StatusCause {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	var named []metav1.StatusCause
	for _, c := range status.Status().Details.Causes {
		if c.Field != "" {
			named = append(named, c)
		}
	}
	return named
}

func sentences(causes []metav1.StatusCause) string {
	lines := []string{"the run was refused, and not created"}
	for _, c := range causes {
		lines = append(lines, "  "+kube.Line(c.Field)+": "+kube.Line(c.Message))
	}
	return strings.Join(lines, "\n")
}

// next is what to do about a refusal.
func next(ctx context.Context, env *kube.Env, namespace, agent string, causes []metav1.StatusCause) string {
	switch hearthv1.RefusalCode(causes[0].Type) {
	case hearthv1.RefusalMissingAgent:
		c, err := env.Client()
		var agents hearthv1.AgentList
		if err != nil || c.List(ctx, &agents, client.InNamespace(namespace)) != nil {
			return env.Command("agents") + " lists the agents"
		}
		names := make([]string, 0, len(agents.Items))
		for i := range agents.Items {
			names = append(names, agents.Items[i].Name)
		}
		if question := strings.TrimPrefix(meant(agent, names), ": "); question != "" {
			return question
		}
		if len(names) == 0 {
			return "there are no agents in namespace " + namespace + ": -n chooses another, and " + env.Program + " agents -A lists all"
		}
		return env.Command("agents") + " lists the agents"
	case hearthv1.RefusalMissingParameters, hearthv1.RefusalUnusedParameters:
		return "-p NAME=VALUE; kubectl describe agent " + agent + " -n " + namespace + " shows its parameters"
	case hearthv1.RefusalReservedName:
		return "leave --name out, and a free one is made"
	default:
		return ""
	}
}
