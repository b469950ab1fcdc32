package doctor

import (
	"fmt"
	"slices"
	"strings"
)

// Kubernetes below this does not serve the CRDs as they are: selectable fields are stable since.
const minMajor, minMinor = 1, 32

// system are the links of the installation.
func (o Observed) system() []link {
	return []link{
		{linkAPI, nil, o.api},
		{linkKinds, []string{linkAPI}, o.kinds},
		{linkFields, []string{linkAPI, linkKinds}, o.fields},
		{linkController, []string{linkAPI}, o.controller},
		{linkLeader, []string{linkAPI, linkController}, o.leader},
		{linkServed, []string{linkAPI, linkController}, o.served},
		{linkWebhooks, []string{linkAPI}, o.webhooks},
		{linkCertificate, []string{linkAPI, linkController, linkWebhooks}, o.certificate},
		{linkEndpoints, []string{linkAPI, linkController}, o.endpoints},
		{linkAdmission, []string{linkAPI, linkKinds, linkController, linkWebhooks, linkCertificate, linkEndpoints}, o.admission},
		{linkControllerRights, []string{linkAPI, linkController}, o.controllerRights},
		{linkYourRights, []string{linkAPI}, o.yourRights},
		{linkAgent, []string{linkAPI, linkKinds}, o.agents},
	}
}

func (o Observed) api() []Finding {
	switch {
	case o.API.Why != "":
		return []Finding{fail(APIUnreachable, "the API server at %s cannot be used", o.API.Host).saw("%s", o.API.Why).
			do("kubectl version").do("kubectl config get-contexts")}
	case o.API.Major == minMajor && o.API.Minor < minMinor:
		return []Finding{fail(APITooOld, "Kubernetes %s is older than %d.%d, which the CRDs need", o.API.Version, minMajor, minMinor).
			do("upgrade the cluster to Kubernetes %d.%d or later", minMajor, minMinor)}
	}
	return []Finding{ok("Kubernetes %s at %s; this is hearth %s", o.API.Version, o.API.Host, o.CLI)}
}

// kinds are those of hearth.dev/v1alpha1.
func (o Observed) kinds() []Finding {
	if o.Kinds.Why != "" {
		return []Finding{notChecked(o.Kinds.Why)}
	}
	var findings []Finding
	for _, k := range kinds {
		if slices.Contains(o.Kinds.Value, k.resource) && slices.Contains(o.Kinds.Value, k.resource+"/status") {
			continue
		}
		crd := o.CRDs[k.resource]
		if !crd.There() || crd.Value.Established {
			f := fail(CRDMissing, "the cluster has no %ss (CRD %s.%s)", k.kind, k.resource, group).do("%s", o.again())
			if crd.Why != "" {
				f = f.saw("%s; whether the CRD is stored was not seen: %s", "the API server does not serve the kind", crd.Why)
			}
			findings = append(findings, f)
			continue
		}
		findings = append(findings, fail(CRDNotEstablished, "the CRD %s.%s is stored and not served", k.resource, group).saw("%s", crd.Value.Says).
			do("kubectl describe crd %s.%s", k.resource, group))
	}
	if len(findings) > 0 {
		return findings
	}
	return []Finding{ok("Agents and AgentRuns are served as %s/%s", group, apiVersion)}
}

// fields are those that this version writes.
func (o Observed) fields() []Finding {
	var findings []Finding
	for _, k := range kinds {
		read := o.Fields[k.kind]
		if read.Why != "" {
			return []Finding{notChecked(read.Why)}
		}
		if lost := pruned(k.known, read.Value); len(lost) > 0 {
			findings = append(findings, fail(CRDOld, "the CRD of %ss is older than this program and lacks %s", k.kind, count(len(lost), "field")).saw("missing: %s", list(lost)).
				do("%s", o.again()))
		}
	}
	if len(findings) > 0 {
		return findings
	}
	return []Finding{ok("the CRDs have every field of this version")}
}

// again is how the installation is applied again, with all that belongs to it: who has it from Helm has no files of ours at hand.
func (o Observed) again() string {
	if o.limited() != nil {
		return "kubectl apply --server-side --force-conflicts -k config/namespaced   # which names your namespaces; or upgrade the Helm release"
	}
	return "kubectl apply --server-side --force-conflicts -f dist/install.yaml   # of the controller's version, with your changes; or upgrade the Helm release"
}

// controllerRights are what config/rbac grants.
func (o Observed) controllerRights() []Finding {
	if o.ControllerMay.Why != "" {
		return []Finding{notChecked(o.ControllerMay.Why)}
	}
	var lacks []string
	for _, r := range o.ControllerMay.Value {
		if !r.Allowed {
			lacks = append(lacks, r.String())
		}
	}
	if len(lacks) > 0 {
		f := fail(ControllerRights, "%s lacks %d of its rights in namespace %s", o.ControllerUser, len(lacks), o.Namespace).saw("it may not: %s", list(lacks))
		if o.limited() != nil {
			return []Finding{f.do("kubectl apply --server-side -n %s -k config/namespaced/grant", o.Namespace)}
		}
		return []Finding{f.do("%s", o.again())}
	}
	return []Finding{ok("%s has all of its %d rights", o.ControllerUser, len(o.ControllerMay.Value))}
}

// yourRights are what a person needs. To lack one breaks nothing of the installation.
func (o Observed) yourRights() []Finding {
	if o.YouMay.Why != "" {
		return []Finding{notChecked(o.YouMay.Why)}
	}
	var findings []Finding
	byRole := map[string][]string{}
	var roles []string
	for _, r := range o.YouMay.Value {
		if r.Allowed {
			continue
		}
		key := r.For + "\x00" + r.Role
		if byRole[key] == nil {
			roles = append(roles, key)
		}
		byRole[key] = append(byRole[key], r.String())
	}
	for _, key := range roles {
		what, role, _ := strings.Cut(key, "\x00")
		findings = append(findings, hint(YourRights, "in namespace %s you may not %s", o.Namespace, what).saw("missing: %s", list(byRole[key])).do("%s", role))
	}
	if len(findings) == 0 {
		return []Finding{ok("you may create runs, watch agents and look into Pods in namespace %s", o.Namespace)}
	}
	return findings
}

// agents: that there are some to look at.
func (o Observed) agents() []Finding {
	switch {
	case o.Agents.Why != "":
		return []Finding{notChecked(o.Agents.Why)}
	case o.Wanted == "" && len(o.Agents.Value) == 0:
		return []Finding{hint(NoAgents, "namespace %s has no Agents", o.Namespace).do("kubectl get agents -A").do("kubectl apply -n %s -f config/samples/agent.yaml", o.Namespace)}
	case o.Wanted == "":
		return []Finding{ok("namespace %s has %s", o.Namespace, count(len(o.Agents.Value), "Agent"))}
	}
	return nil
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
