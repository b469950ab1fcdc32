// Package client is the controller's side of the wire: one Link per standing Pod, for the Pod's whole life (R26; SPEC.md, Lifecycle).
// A Link proves who answers before anything else is sent, keeps what the harness says of its attempts in memory, and carries
// out deliveries, looks, cancels and acknowledgements in the background. Nobody who calls it ever waits for a peer.
package client
