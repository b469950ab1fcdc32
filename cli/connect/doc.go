// Package connect is hearth connect: it makes the ACP endpoint of an agent in a Pod look like an agent on this machine, for editors
// and other clients that start a process and speak the Agent Client Protocol over its stdin and stdout (R50).
package connect
