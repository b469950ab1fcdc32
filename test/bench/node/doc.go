// Package node is what stands below the API server while Hearth is measured: it does for Pods of standing runs what kubelet does, and
// behind each Pod's own loopback address is the real delivery server with its real journal on the disk. Only the agent is scripted. All
// of that is one process, so that thousands of targets fit on a small machine:
//
//	func main() {
//		if node.Asked() {
//			os.Exit(node.Main())
//		}
//		...
//		n, err := node.Spawn(ctx, node.Options{Kubeconfig: file, Dir: dir})
//		err = n.Await(ctx, node.Counts{Pods: 500})
//		err = n.Reset(ctx)
//		times, err := n.Times(ctx)
//		err = n.Close()
//
// Times are read from the machine's clock, which the processes of one measurement share.
//
// What a goal says is what happens: "hold" runs until Release or a cancel, "take 5s" for that time, "give 4096" ends at once with an
// output of so many bytes, and anything else ends at once.
package node
