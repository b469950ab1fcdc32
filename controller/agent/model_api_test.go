package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hearthdev/hearth/api/v1alpha1"
)

// objects are one Agent and its runs, by name.
type objects struct {
	agent *v1alpha1.Agent
	runs  map[string]*v1alpha1.AgentRun
}

func (o objects) copy() objects {
	out := objects{agent: o.agent.DeepCopy(), runs: make(map[string]*v1alpha1.AgentRun, len(o.runs))}
	for name, r := range o.runs {
		out.runs[name] = r.DeepCopy()
	}
	return out
}

func (o objects) sorted() []*v1alpha1.AgentRun {
	out := make([]*v1alpha1.AgentRun, 0, len(o.runs))
	for _, name := range slices.Sorted(maps.Keys(o.runs)) {
		out = append(out, o.runs[name])
	}
	return out
}

// modelAPI is an API server with resource versions.
type modelAPI struct {
	objects
	version, uids int
}

func (a *modelAPI) bump() string {
	a.version++
	return strconv.Itoa(a.version)
}

// modelClient reads from one copy of the objects and writes to the API server. before is called before each write, as is after.
type modelClient struct {
	client.Client
	from   func() objects
	api    *modelAPI
	before func()
	after  func(verb string, was, is *v1alpha1.AgentRun)
}

var (
	resource   = schema.GroupResource{Group: "hearth.dev", Resource: "agentruns"}
	errForeign = errors.New("the model has no such object")
)

func (c *modelClient) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	o := c.from()
	switch into := into.(type) {
	case *v1alpha1.Agent:
		o.agent.DeepCopyInto(into)
		return nil
	case *v1alpha1.AgentRun:
		if r := o.runs[key.Name]; r != nil {
			r.DeepCopyInto(into)
			return nil
		}
	case *corev1.Pod:
	default:
		return errForeign
	}
	return apierrors.NewNotFound(resource, key.Name)
}

func (c *modelClient) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	list, ok := into.(*v1alpha1.AgentRunList)
	if !ok {
		return errForeign
	}
	for _, r := range c.from().sorted() {
		list.Items = append(list.Items, *r.DeepCopy())
	}
	return nil
}

func (c *modelClient) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	run, ok := o.(*v1alpha1.AgentRun)
	if !ok {
		return errForeign
	}
	c.before()
	if c.api.runs[run.Name] != nil {
		return apierrors.NewAlreadyExists(resource, run.Name)
	}
	c.api.uids++
	run.UID, run.ResourceVersion = types.UID(fmt.Sprint("uid-", c.api.uids)), c.api.bump()
	c.api.runs[run.Name] = run.DeepCopy()
	c.after("create", nil, run)
	return nil
}

func (c *modelClient) Delete(_ context.Context, o client.Object, options ...client.DeleteOption) error {
	c.before()
	var d client.DeleteOptions
	d.ApplyOptions(options)
	is := c.api.runs[o.GetName()]
	switch {
	case is == nil:
		return apierrors.NewNotFound(resource, o.GetName())
	case d.Preconditions.UID != nil && *d.Preconditions.UID != is.UID,
		d.Preconditions.ResourceVersion != nil && *d.Preconditions.ResourceVersion != is.ResourceVersion:
		return apierrors.NewConflict(resource, o.GetName(), errors.New("precondition"))
	}
	delete(c.api.runs, o.GetName())
	c.after("delete", is, nil)
	return nil
}

func (c *modelClient) Status() client.SubResourceWriter { return &modelStatus{c: c} }

type modelStatus struct {
	client.SubResourceWriter
	c *modelClient
}

func (s *modelStatus) Update(_ context.Context, o client.Object, _ ...client.SubResourceUpdateOption) error {
	s.c.before()
	switch o := o.(type) {
	case *v1alpha1.Agent:
		if o.ResourceVersion != s.c.api.agent.ResourceVersion {
			return apierrors.NewConflict(resource, o.Name, errors.New("version"))
		}
		was := s.c.api.agent.DeepCopy()
		s.c.api.agent.Status = *o.Status.DeepCopy()
		s.c.api.agent.ResourceVersion = s.c.api.bump()
		return recastsAreSpaced(was.Status, o.Status)
	case *v1alpha1.AgentRun:
		is := s.c.api.runs[o.Name]
		if is == nil {
			return apierrors.NewNotFound(resource, o.Name)
		}
		if o.ResourceVersion != is.ResourceVersion {
			return apierrors.NewConflict(resource, o.Name, errors.New("version"))
		}
		was := is.DeepCopy()
		is.Status = *o.Status.DeepCopy()
		is.ResourceVersion = s.c.api.bump()
		s.c.after("update", was, is)
		return nil
	default:
		return errForeign
	}
}

// recastsAreSpaced: however many end, there is one round of replacements a backoff (R29).
func recastsAreSpaced(was, is v1alpha1.AgentStatus) error {
	if was.LastRecastTime == nil || was.LastRecastTime.Equal(is.LastRecastTime) {
		return nil
	}
	if gap := is.LastRecastTime.Sub(was.LastRecastTime.Time); gap.Seconds() < float64(was.RecastBackoffSeconds) {
		return fmt.Errorf("recast %s after the last one, the backoff was %d s", gap, was.RecastBackoffSeconds)
	}
	return nil
}
