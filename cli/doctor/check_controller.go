package doctor

import (
	"cmp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

const (
	// leaseName is that of the controllers' lease.
	leaseName = "hearth-controller"
	// leaseSilent is how long a leader may not have renewed its lease: four times as long as it is given.
	leaseSilent = time.Minute
	// flagNamespaces and flagElect are flags of the controller.
	flagNamespaces = "namespaces"
	flagElect      = "leader-elect"
	noElection     = "false"
)

var (
	group      = hearthv1.GroupVersion.Group
	apiVersion = hearthv1.GroupVersion.Version
)

// ControllerLabels are those of the controller's Deployment, its Pods and its Service.
func ControllerLabels() map[string]string {
	return map[string]string{"app.kubernetes.io/name": "hearth", "app.kubernetes.io/component": "controller"}
}

func (o Observed) controller() []Finding {
	switch {
	case o.Deployments.Why != "":
		return []Finding{notChecked(o.Deployments.Why)}
	case len(o.Deployments.Value) == 0:
		return []Finding{fail(ControllerMissing, "namespace %s has no controller", o.System).
			saw("no Deployment with the labels app.kubernetes.io/name=hearth, app.kubernetes.io/component=controller").
			do("kubectl get deployments -A -l app.kubernetes.io/name=hearth   # then --system-namespace").do("%s", o.again())}
	}
	some := slices.ContainsFunc(o.Deployments.Value, func(d appsv1.Deployment) bool { return d.Status.AvailableReplicas > 0 })
	findings := make([]Finding, len(o.Deployments.Value))
	for i := range findings {
		findings[i] = o.deployment(o.Deployments.Value[i])
		if some && findings[i].Status == StatusFail { // of other shards; whose Agents that breaks, their own checks say
			findings[i].Status = StatusHint
		}
	}
	return findings
}

// deployment is one of a controller: where there are shards each has its own.
func (o Observed) deployment(d appsv1.Deployment) Finding {
	want, available := ptr.Deref(d.Spec.Replicas, 1), d.Status.AvailableReplicas
	switch {
	case want == 0:
		return fail(ControllerScaledDown, "Deployment %s/%s wants no replicas", d.Namespace, d.Name).
			do("kubectl -n %s scale deployment/%s --replicas=2", d.Namespace, d.Name)
	case available >= want:
		return ok("Deployment %s/%s: %d of %d available, image %s", d.Namespace, d.Name, available, want, controllerImage(d))
	}
	f := o.controllerPods(d)
	if available > 0 {
		f.Status, f.Says = StatusHint, itoa(available)+" of "+itoa(want)+" controllers are available; "+f.Says
		f.Code = ControllerFewer
	}
	return f
}

// controllerPods says why fewer are available than wanted.
func (o Observed) controllerPods(d appsv1.Deployment) Finding {
	look := "kubectl -n " + d.Namespace + " describe pods -l app.kubernetes.io/name=hearth"
	if o.SystemPods.Why == "" {
		pods := slices.Clone(o.SystemPods.Value)
		slices.SortFunc(pods, func(a, b corev1.Pod) int { return b.CreationTimestamp.Compare(a.CreationTimestamp.Time) }) // the newest template first
		for i := range pods {
			p := &pods[i]
			if podCondition(p, corev1.PodReady).Status == corev1.ConditionTrue || p.Labels[hearthv1.LabelShard] != d.Spec.Template.Labels[hearthv1.LabelShard] {
				continue
			}
			c := complaint(p, o.Tails[p.Name])
			switch c.kind {
			case complaintImage:
				return fail(ControllerImage, "the controller's image cannot be pulled").about("Pod", p.Name).saw("%s", c.words).
					do("kubectl -n %s set image deployment/%s %s=IMAGE   # one that the nodes have or can pull", d.Namespace, d.Name, cmp.Or(c.container, "controller"))
			case complaintCrash, complaintEnded:
				return fail(ControllerCrashes, "the controller ends again and again").about("Pod", p.Name).saw("%s", c.words).
					do("kubectl -n %s logs %s --previous", d.Namespace, p.Name)
			case complaintNone:
				return fail(ControllerNotReady, "the controller runs and is not ready").about("Pod", p.Name).saw("%s", told(podCondition(p, corev1.PodReady).Reason, podCondition(p, corev1.PodReady).Message)).
					do("kubectl -n %s logs %s", d.Namespace, p.Name)
			default:
				return fail(ControllerNotReady, "the controller's Pod does not start").about("Pod", p.Name).saw("%s", c.words).do("%s", look)
			}
		}
	}
	for _, kind := range []appsv1.DeploymentConditionType{appsv1.DeploymentReplicaFailure, appsv1.DeploymentProgressing, appsv1.DeploymentAvailable} {
		for _, c := range d.Status.Conditions {
			if failed := kind == appsv1.DeploymentReplicaFailure; c.Type == kind && (c.Status == corev1.ConditionTrue) == failed {
				return fail(ControllerNoPods, "the controller's Pods are not made").saw("%s", told(c.Reason, c.Message)).do("kubectl -n %s describe deployment/%s", d.Namespace, d.Name)
			}
		}
	}
	f := fail(ControllerNotReady, "Deployment %s/%s lacks controllers, and none of its Pods says why", d.Namespace, d.Name).do("%s", look)
	if o.SystemPods.Why != "" {
		f = f.saw("its Pods were not seen: %s", o.SystemPods.Why)
	}
	return f
}

func controllerImage(d appsv1.Deployment) string {
	if len(d.Spec.Template.Spec.Containers) == 0 {
		return "?"
	}
	return d.Spec.Template.Spec.Containers[0].Image
}

// flag is the value of one of the controller's flags; a bare one is "true".
func (o Observed) flag(name string) (value string, set bool) {
	if o.Deployments.Why != "" || len(o.Deployments.Value) == 0 {
		return "", false
	}
	for _, c := range o.Deployments.Value[0].Spec.Template.Spec.Containers {
		args := slices.Concat(c.Command, c.Args)
		for i, arg := range args {
			bare, isFlag := strings.CutPrefix(arg, "-")
			key, v, hasValue := strings.Cut(strings.TrimPrefix(bare, "-"), "=")
			switch {
			case !isFlag || key != name:
			case hasValue:
				value, set = v, true
			case name != flagElect && i+1 < len(args): // a boolean flag takes no word after it
				value, set = args[i+1], true
			default:
				value, set = "true", true
			}
		}
	}
	return value, set
}

// limited are the namespaces that the controller is limited to; nil means all.
func (o Observed) limited() []string {
	if v, set := o.flag(flagNamespaces); set && v != "" {
		return strings.Split(v, ",")
	}
	return nil
}

func (o Observed) leader() []Finding {
	if v, _ := o.flag(flagElect); v == noElection {
		return []Finding{ok("there is no election: --leader-elect=false")}
	}
	if o.sharded() {
		return o.leaders()
	}
	switch {
	case o.Lease.Why != "":
		return []Finding{notChecked(o.Lease.Why)}
	case o.Lease.Absent || ptr.Deref(o.Lease.Value.Spec.HolderIdentity, "") == "":
		return []Finding{fail(LeaderMissing, "no controller holds the lease %s/%s", o.System, leaseName).do("kubectl -n %s logs -l app.kubernetes.io/name=hearth --tail=20", o.System)}
	}
	spec := o.Lease.Value.Spec
	holder, _, _ := strings.Cut(*spec.HolderIdentity, "_")
	if spec.RenewTime == nil || o.Now.Sub(spec.RenewTime.Time) > leaseSilent {
		f := fail(LeaderSilent, "%s holds the lease and does not renew it", holder).do("kubectl -n %s delete pod %s", o.System, holder)
		if spec.RenewTime != nil {
			f = f.saw("last renewed %s", ago(o.Now, spec.RenewTime.Time))
		}
		return []Finding{f}
	}
	return []Finding{ok("%s leads, renewed %s", holder, ago(o.Now, spec.RenewTime.Time))}
}

// served: the namespace is one that the controller works in.
func (o Observed) served() []Finding {
	if o.Deployments.Why != "" {
		return []Finding{notChecked(o.Deployments.Why)}
	}
	limited := o.limited()
	switch {
	case limited == nil:
		return []Finding{ok("the controller serves every namespace")}
	case slices.Contains(limited, o.Namespace):
		return []Finding{ok("the controller serves %s", list(limited))}
	}
	return []Finding{fail(NamespaceNotServed, "the controller does not serve namespace %s", o.Namespace).saw("--%s=%s", flagNamespaces, strings.Join(limited, ",")).
		do("kubectl apply --server-side -n %s -k config/namespaced/grant", o.Namespace).
		do("kubectl -n %s edit deployment/%s   # --namespaces=%s,%s", o.System, o.Deployments.Value[0].Name, strings.Join(limited, ","), o.Namespace)}
}
