// Package manifests tests what is installed: that it is hardened, and that its network policies admit whom they should.
package manifests
