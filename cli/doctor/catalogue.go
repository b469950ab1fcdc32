package doctor

import (
	"fmt"
	"slices"
	"strings"
)

// Code is what is wrong, or hinted at, in one word.
type Code string

// Entry explains a code, as docs/doctor.md has it.
type Entry struct {
	// Check is the link that gives it.
	Check string
	// Means says what it means, Do what to do about it.
	Means, Do string
	// See is where the documentation says more.
	See string
}

// Where the documentation explains things.
const (
	seeInstalling = "docs/install.md#installing-hearth"
	seeShards     = "docs/install.md#shards"
	seeAgain      = "docs/install.md#upgrade-and-downgrade"
	seeInstall    = "docs/operating.md#install-on-a-cluster"
	seeRights     = "docs/operating.md#what-the-controller-may-do"
	seeNamespaces = "docs/operating.md#for-a-few-namespaces-only"
	seeChanging   = "docs/operating.md#making-and-changing-an-agent"
	seeWaits      = "docs/operating.md#why-does-my-run-wait"
	seeEnds       = "docs/operating.md#how-did-my-run-end"
	seeRefused    = "docs/operating.md#when-a-run-is-refused"
	seeKeys       = "docs/operating.md#keys-for-people"
	seePolicies   = "docs/operating.md#network-policies"
	seeSandboxes  = "docs/operating.md#runs-in-sandboxes"
	seeSchedules  = "docs/operating.md#agents-with-a-schedule"
	seeProtected  = "docs/operating.md#what-is-protected-from-whom"
	seeCannot     = "docs/operating.md#what-a-user-of-a-namespace-cannot-do"
	seeConnect    = "docs/clients.md#hearth-connect"
)

// The codes, in the order of the chain.
const (
	APIUnreachable        Code = "APIUnreachable"
	APITooOld             Code = "APITooOld"
	CRDMissing            Code = "CRDMissing"
	CRDNotEstablished     Code = "CRDNotEstablished"
	CRDOld                Code = "CRDOld"
	ControllerMissing     Code = "ControllerMissing"
	ControllerScaledDown  Code = "ControllerScaledDown"
	ControllerNoPods      Code = "ControllerNoPods"
	ControllerImage       Code = "ControllerImage"
	ControllerCrashes     Code = "ControllerCrashes"
	ControllerNotReady    Code = "ControllerNotReady"
	ControllerFewer       Code = "ControllerFewer"
	LeaderMissing         Code = "LeaderMissing"
	LeaderSilent          Code = "LeaderSilent"
	NamespaceNotServed    Code = "NamespaceNotServed"
	WebhookMissing        Code = "WebhookMissing"
	WebhookOpen           Code = "WebhookOpen"
	WebhookNoBundle       Code = "WebhookNoBundle"
	CertificateMissing    Code = "CertificateMissing"
	CertificateExpired    Code = "CertificateExpired"
	CertificateNotTrusted Code = "CertificateNotTrusted"
	WebhookNoService      Code = "WebhookNoService"
	WebhookNoEndpoints    Code = "WebhookNoEndpoints"
	AdmissionFails        Code = "AdmissionFails"
	AdmissionBypassed     Code = "AdmissionBypassed"
	ControllerRights      Code = "ControllerRights"
	YourRights            Code = "YourRights"
	AgentMissing          Code = "AgentMissing"
	NoAgents              Code = "NoAgents"
	ShardUnserved         Code = "ShardUnserved"
	TemplateNoAgent       Code = "TemplateNoAgent"
	AgentNotLookedAt      Code = "AgentNotLookedAt"
	AgentNotReady         Code = "AgentNotReady"
	AgentIdle             Code = "AgentIdle"
	AgentSuspended        Code = "AgentSuspended"
	SandboxMissing        Code = "SandboxMissing"
	StandingMissing       Code = "StandingMissing"
	StandingFewer         Code = "StandingFewer"
	PodMissing            Code = "PodMissing"
	PodNotScheduled       Code = "PodNotScheduled"
	PodImage              Code = "PodImage"
	PodConfig             Code = "PodConfig"
	PodCrashes            Code = "PodCrashes"
	PodEnded              Code = "PodEnded"
	PodStarting           Code = "PodStarting"
	PodTerminating        Code = "PodTerminating"
	PodLabels             Code = "PodLabels"
	SecretMissing         Code = "SecretMissing"
	SecretReplaced        Code = "SecretReplaced"
	KeysMissing           Code = "KeysMissing"
	AgentNotListening     Code = "AgentNotListening"
	PolicyCutsDelivery    Code = "PolicyCutsDelivery"
	DeliveryClosed        Code = "DeliveryClosed"
	DeliverySilent        Code = "DeliverySilent"
	DeliveryNotTLS        Code = "DeliveryNotTLS"
	DeliveryOtherKey      Code = "DeliveryOtherKey"
	DeliveryUnproven      Code = "DeliveryUnproven"
	DeliveryRefused       Code = "DeliveryRefused"
	DeliveryOtherPod      Code = "DeliveryOtherPod"
	DeliveryIncompatible  Code = "DeliveryIncompatible"
	DeliveryAgentDown     Code = "DeliveryAgentDown"
	ControllerCutOff      Code = "ControllerCutOff"
	ACPClosed             Code = "ACPClosed"
	ACPKeyRefused         Code = "ACPKeyRefused"
	ACPSilent             Code = "ACPSilent"
	RunNotLookedAt        Code = "RunNotLookedAt"
	RunBlocked            Code = "RunBlocked"
	RunWaits              Code = "RunWaits"
	LastRunFailed         Code = "LastRunFailed"
	ParametersMissing     Code = "ParametersMissing"
	TestRefused           Code = "TestRefused"
	TestFailed            Code = "TestFailed"
	TestNotEnded          Code = "TestNotEnded"
)

// catalogue explains every code.
var catalogue = map[Code]Entry{
	APIUnreachable:        {linkAPI, "the API server does not answer, or does not know you", "look at the kubeconfig and its context; `kubectl version` must work", seeInstall},
	APITooOld:             {linkAPI, "Kubernetes is older than what the CRDs need (1.32, for selectable fields)", "upgrade the cluster", seeInstall},
	CRDMissing:            {linkKinds, "the cluster has no Agents or AgentRuns", "install Hearth, by its manifest or by Helm, or choose the context of the cluster that has it", seeInstalling},
	CRDNotEstablished:     {linkKinds, "a CRD is stored and not served", "do what its condition says", seeInstall},
	CRDOld:                {linkFields, "the stored CRDs lack fields of this version: what the controller writes there is dropped", "apply the installation of the controller's version again, or upgrade the Helm release", seeAgain},
	ControllerMissing:     {linkController, "no Deployment has the controller's labels in that namespace", "install it, by its manifest or by Helm, or say where it is with --system-namespace", seeInstalling},
	ControllerScaledDown:  {linkController, "the Deployment wants no replicas", "scale it up", seeInstall},
	ControllerNoPods:      {linkController, "its Pods cannot be made: a quota, a service account, Pod security", "do what the Deployment's condition says", seeInstall},
	ControllerImage:       {linkController, "the controller's image cannot be pulled", "set an image that the nodes can pull", seeInstall},
	ControllerCrashes:     {linkController, "the controller ends again and again", "its last words say why, most often a missing right or a wrong flag", seeRights},
	ControllerNotReady:    {linkController, "its Pods run or are pending and none is ready", "look at the Pod and its log", seeInstall},
	ControllerFewer:       {linkController, "fewer replicas than wanted are available; the work goes on", "look at the Pod that is not", seeInstall},
	LeaderMissing:         {linkLeader, "nobody holds the lease, so nobody delivers or records", "wait a few seconds; then look at the controllers' logs", seeInstall},
	LeaderSilent:          {linkLeader, "the holder of the lease has not renewed it: it hangs or its node is gone", "delete that Pod; another takes over", seeInstall},
	NamespaceNotServed:    {linkServed, "the controller is limited to other namespaces by --namespaces", "grant it this one, and name it in the flag; of a Helm release, name it in the value namespaces", seeNamespaces},
	WebhookMissing:        {linkWebhooks, "a webhook configuration or one of its webhooks is not there: runs are stored without being resolved", "apply the installation again, or upgrade the Helm release; the controller fills in the caBundle within a minute", seeAgain},
	WebhookOpen:           {linkWebhooks, "failurePolicy is not Fail: while no controller runs, unresolved runs are stored", "apply the installation again, or upgrade the Helm release", seeAgain},
	WebhookNoBundle:       {linkWebhooks, "a webhook has no caBundle: the API server cannot believe the controller", "the controller writes it: look at its log and rights", seeRights},
	CertificateMissing:    {linkCertificate, "the Secret of the webhook certificate is not there or empty", "apply the installation again, or upgrade the Helm release; the controller fills it", seeAgain},
	CertificateExpired:    {linkCertificate, "the webhook certificate is past its time", "the controller renews it: look at its log; deleting its Pods makes it look at once", seeInstall},
	CertificateNotTrusted: {linkCertificate, "the caBundle does not vouch for the certificate that is served", "something else writes the caBundle or the Secret; the controller puts it right within a minute unless it may not", seeRights},
	WebhookNoService:      {linkEndpoints, "the Service that the webhooks name is not there", "apply the installation again, or upgrade the Helm release", seeAgain},
	WebhookNoEndpoints:    {linkEndpoints, "no ready Pod is behind the webhooks' Service", "the controller's Pods are not ready, or the Service selects other labels", seeInstall},
	AdmissionFails:        {linkAdmission, "the API server could not call the webhook", "its words say why; a webhook port that the API server cannot reach is most often a firewall or a policy", seeInstall},
	AdmissionBypassed:     {linkAdmission, "a run for an Agent that does not exist was let through: nobody checks runs", "apply the installation again, or upgrade the Helm release; who you are may be exempt from webhooks", seeAgain},
	ControllerRights:      {linkControllerRights, "the controller lacks a right that it needs", "apply the installation again, or upgrade the Helm release; of a few namespaces, the namespace's grant", seeRights},
	YourRights:            {linkYourRights, "you lack a right that a person needs for the thing named", "ask for the role that is named", seeConnect},
	AgentMissing:          {linkAgent, "there is no Agent of that name in the namespace", "look at the name and at -n", seeChanging},
	NoAgents:              {linkAgent, "the namespace has no Agents", "make one; -n chooses another namespace", seeChanging},
	ShardUnserved:         {linkShard, "no controller leads for the Agent's shard, so its runs wait", "start one whose --agent-selector has it (of a Helm release, the value shards), or make the Agent again with the label of another", seeShards},
	TemplateNoAgent:       {linkTemplate, "the template has no container named agent with an image", "the container named agent runs the harness; give it one", seeChanging},
	AgentNotLookedAt:      {linkReady, "the controller has not looked at the Agent as it is", "wait a few seconds; then look at the controller's log", seeChanging},
	AgentNotReady:         {linkReady, "the Agent's Ready condition is False", "the message says why; a hint while a standing run has been in the making for less than 30 s", seeChanging},
	AgentIdle:             {linkReady, "the Agent wants no standing run: it is scaled to zero", "scale it up, if that is not meant", seeChanging},
	AgentSuspended:        {linkReady, "the Agent's schedule is suspended: its times go by", "resume it, if that is not meant", seeSchedules},
	SandboxMissing:        {linkBackend, "backend Sandbox, and the API server has no Sandboxes", "install agent-sandbox, or set the backend to Pod", seeSandboxes},
	StandingMissing:       {linkStanding, "a Service Agent has no living standing run", "its Ready condition says why", seeChanging},
	StandingFewer:         {linkStanding, "fewer standing runs than wanted", "the Progressing condition says what the next one waits for", seeChanging},
	PodMissing:            {linkPod, "the run has no Pod", "its message says why none could be made: a quota, or an object of its name that is somebody's", seeWaits},
	PodNotScheduled:       {linkPod, "no node takes the Pod", "the scheduler's words say what is missing", seeWaits},
	PodImage:              {linkPod, "an image cannot be pulled", "correct the image's name, its registry's pull secret, or load it into the node", seeWaits},
	PodConfig:             {linkPod, "kubelet cannot make a container: a Secret, a ConfigMap or a command that is not there", "make what is missing, or correct the template", seeWaits},
	PodCrashes:            {linkPod, "a container ends again and again", "its last words say why; a command that is not in the image or does not speak the Agent Client Protocol ends the harness", seeWaits},
	PodEnded:              {linkPod, "the Pod has ended", "its reason says why; a standing run is recast by itself", seeEnds},
	PodStarting:           {linkPod, "the Pod is still starting", "look again in a minute", seeWaits},
	PodTerminating:        {linkPod, "the Pod is being deleted", "another takes its place; a Pod that stays is stuck on its node", seeChanging},
	PodLabels:             {linkLabels, "somebody took our labels off the Pod: the controller does not see it any more", "put them back, or delete the Pod", seeCannot},
	SecretMissing:         {linkSecret, "the standing run's Secret is gone: work cannot be proven to be the controller's", "the controller replaces the standing run; delete it to have that at once. A hint once another does the work: the old one is deleted as soon as it is known that nothing is in it, or after drainTimeoutSeconds", seeChanging},
	SecretReplaced:        {linkSecret, "the Secret is another than the Pod started with", "delete the standing run, it is recast with a Secret of its own; a hint once another does the work", seeChanging},
	KeysMissing:           {linkKeys, "an Agent's Secret for people is gone: who has no copy of the key cannot attach", "delete the standing run; the next one makes it", seeKeys},
	AgentNotListening:     {linkListening, "the Pod runs and port 4000 is closed: the agent is down or still starting", "look at the Pod's log", seeWaits},
	PolicyCutsDelivery:    {linkPolicy, "no NetworkPolicy of the namespace lets the controller in to the delivery port. It has an effect only where the network enforces policies", "apply config/networkpolicy/agents, or add a rule to yours", seePolicies},
	DeliveryClosed:        {linkChallenge, "nothing listens on the delivery port", "an image without the harness, or another port: look at the Pod's log", seeWaits},
	DeliverySilent:        {linkChallenge, "the delivery port takes connections and says nothing", "a frozen process, or a proxy whose backend is gone: delete the Pod", seeWaits},
	DeliveryNotTLS:        {linkChallenge, "the delivery port does not speak TLS 1.3", "a foreign runtime that speaks plain HTTP needs runtime.delivery.scheme HTTP; else another program has the port", seeWaits},
	DeliveryOtherKey:      {linkChallenge, "whoever has the delivery port does not have the Pod's key", "the Pod started with another Secret, or something intercepts TLS: delete the standing run", seeProtected},
	DeliveryUnproven:      {linkChallenge, "somebody answers on the delivery port who cannot prove to be the Pod", "another program has the port, or the Pod started with another Secret: delete the standing run", seeProtected},
	DeliveryRefused:       {linkChallenge, "the harness refused the proof made of the Secret", "the Pod started with another Secret: delete the standing run", seeWaits},
	DeliveryOtherPod:      {linkChallenge, "the harness says that it is another Pod", "its environment was tampered with: delete the standing run", seeProtected},
	DeliveryIncompatible:  {linkChallenge, "the harness and this program share no version of the contract", "build the image with the harness of the controller's version", seeWaits},
	DeliveryAgentDown:     {linkChallenge, "the harness answers, and its agent is not ready", "look at the Pod's log", seeWaits},
	ControllerCutOff:      {linkContact, "the Pod proves itself through the API server, and the controller says that it cannot reach it", "the network between them: a NetworkPolicy, or the nodes' routes", seePolicies},
	ACPClosed:             {linkACP, "nothing listens on port 4000", "the agent is down: look at the Pod's log", seeWaits},
	ACPKeyRefused:         {linkACP, "the endpoint refuses the key of the Secret", "the Secret was made anew since the Pod started: delete the standing run", seeKeys},
	ACPSilent:             {linkACP, "port 4000 is open, and initialize is not answered", "look at the Pod's log", seeWaits},
	RunNotLookedAt:        {linkRuns, "a run is stored that no controller has looked at", "is a controller running, and does it serve this namespace?", seeWaits},
	RunBlocked:            {linkRuns, "a run waits for something that does not come by waiting", "the reason and the message say what", seeWaits},
	RunWaits:              {linkRuns, "runs wait their turn", "more replicas, concurrency or queue let them in sooner", seeWaits},
	LastRunFailed:         {linkRuns, "the newest run that ended did not succeed", "the reason says why; of an AgentError, `hearth logs` has what the agent and its model provider said", seeEnds},
	ParametersMissing:     {linkDeliver, "the Agent needs parameters that were not given", "give each with -p NAME=VALUE", seeRefused},
	TestRefused:           {linkDeliver, "the test run was refused", "the code says why", seeRefused},
	TestFailed:            {linkDeliver, "the test run ended, and not with success", "the reason says why", seeEnds},
	TestNotEnded:          {linkDeliver, "the test run did not end in the time given", "its reason says what it waits for; --timeout waits longer", seeWaits},
}

// Codes are all codes, in the order of the chain.
func Codes() []Code {
	codes := make([]Code, 0, len(catalogue))
	for code := range catalogue {
		codes = append(codes, code)
	}
	slices.SortFunc(codes, func(a, b Code) int {
		if byLink := slices.Index(order, catalogue[a].Check) - slices.Index(order, catalogue[b].Check); byLink != 0 {
			return byLink
		}
		return strings.Compare(string(a), string(b))
	})
	return codes
}

// Table is the table of docs/doctor.md.
func Table() string {
	var out strings.Builder
	out.WriteString("| check | code | it means | what to do |\n| --- | --- | --- | --- |\n")
	for _, code := range Codes() {
		e := catalogue[code]
		fmt.Fprintf(&out, "| %s | %s | %s | %s: [more](%s) |\n", e.Check, code, e.Means, e.Do, strings.TrimPrefix(e.See, "docs/"))
	}
	return out.String()
}
