package kube

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
)

// The exit codes (docs/cli.md); hearth doctor has its own (docs/doctor.md). The first four are those of harness run (SPEC.md, Harness): of
// a command that waits for a run they say how it ended.
const (
	ExitDone        = 0   // what was asked for was done; of a run that is waited for: Succeeded
	ExitFailed      = 1   // the run failed; of other commands: anything that has no code of its own
	ExitLimit       = 2   // a limit, a budget or a deadline ended the run
	ExitRefused     = 3   // the run was refused: by the model, by the harness, or at admission
	ExitCancelled   = 4   // the run was cancelled
	ExitUnknown     = 5   // nobody knows how the run ended: it was lost, interrupted or deleted
	ExitWaiting     = 6   // --timeout was over; the run goes on
	ExitUsage       = 64  // the command line is wrong (EX_USAGE)
	ExitUnavailable = 69  // the cluster could not be asked: none, away, no Hearth in it, no right (EX_UNAVAILABLE)
	ExitUnwritten   = 74  // what came of it could not be written to stdout (EX_IOERR); a run that was waited for has ended, or is there
	ExitInterrupted = 130 // ended by Ctrl-C or SIGTERM; a run that was waited for goes on
)

var errNoCluster = errors.New("nothing says which cluster: there is no kubeconfig")

// Failure is an error with what the person can do next.
type Failure struct {
	// Err is nil when all was said, and only the exit code is left.
	Err error
	// Next is a sentence or a command line; "" where there is nothing to say.
	Next string
	// Code is the exit code.
	Code int
}

func (f *Failure) Error() string {
	if f.Err == nil {
		return fmt.Sprintf("exit code %d", f.Code)
	}
	return f.Err.Error()
}

// Unwrap is the error itself.
func (f *Failure) Unwrap() error { return f.Err }

// Usage is a Failure of the command line.
func Usage(format string, args ...any) error {
	return &Failure{Err: fmt.Errorf(format, args...), Code: ExitUsage}
}

// Unconfigured is a Failure to find out which cluster is meant.
func Unconfigured(err error) error {
	return &Failure{Err: fmt.Errorf("kubeconfig: %w", err), Next: "kubectl config get-contexts lists what there is; --context and --kubeconfig choose", Code: ExitUnavailable}
}

// Code is the exit code of an error: 0 of none, ExitFailed of one that says no other.
func Code(err error) int {
	var failure *Failure
	switch {
	case err == nil:
		return ExitDone
	case errors.As(err, &failure):
		return failure.Code
	case errors.Is(err, context.Canceled):
		return ExitInterrupted
	default:
		return ExitFailed
	}
}

// Explain says of an error of the API server what it means and what to do next. A Failure, and an error that it knows nothing
// about, stay as they are.
func (e *Env) Explain(err error) error {
	var failure *Failure
	var asked *url.Error
	switch {
	case err == nil, errors.As(err, &failure), errors.Is(err, context.Canceled):
		return err
	case meta.IsNoMatchError(err), noSuchResource(err):
		return &Failure{Err: fmt.Errorf("this cluster has no Agents: Hearth is not installed in it, or it is not the cluster that you mean (%w)", err),
			Next: e.Command("doctor"), Code: ExitUnavailable}
	case apierrors.IsUnauthorized(err):
		return &Failure{Err: fmt.Errorf("the cluster does not know who you are: %w", err), Next: "log in again; kubectl auth whoami tells who you are", Code: ExitUnavailable}
	case apierrors.IsForbidden(err):
		return &Failure{Err: err, Next: e.Command("doctor") + " says which rights you lack; the roles edit and view have them, as have hearth-edit and hearth-view", Code: ExitUnavailable}
	case apierrors.IsNotFound(err):
		return &Failure{Err: err, Next: "-n chooses another namespace", Code: ExitFailed}
	case errors.As(err, &asked), unreachable(err):
		return &Failure{Err: fmt.Errorf("the API server does not answer: %w", err), Next: "is it the cluster that you mean? " + e.Command("doctor"), Code: ExitUnavailable}
	case apierrors.IsServiceUnavailable(err), apierrors.IsTimeout(err), apierrors.IsServerTimeout(err), apierrors.IsTooManyRequests(err), apierrors.IsInternalError(err):
		return &Failure{Err: err, Next: e.Command("doctor"), Code: ExitUnavailable}
	}
	return err
}

// noSuchResource tells a 404 about a kind from one about an object, which has a name.
func noSuchResource(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details == nil || details.Name == ""
}

func unreachable(err error) bool {
	var op *net.OpError
	return errors.As(err, &op)
}
