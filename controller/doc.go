// Package controller has the controller's parts in the folders below it, and here the rights that the process itself needs: its
// lease, and the events of its election. Each part says its own rights; config/rbac/role.yaml is made from them.
package controller

// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=hearth-system,resources=leases,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=hearth-system,resources=leases,resourceNames=hearth-controller,verbs=get;update
// +kubebuilder:rbac:groups="",namespace=hearth-system,resources=events,verbs=create
