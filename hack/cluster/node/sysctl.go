package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// sysctls are the kernel settings that kubelet, kube-proxy and the CNI plugins change.
var sysctls = []string{
	"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
	"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
	"net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding",
	"net/ipv4/conf/all/route_localnet", "net/ipv4/vs/conntrack",
}

// saveSysctls notes the values before anything changes them.
func (p Place) saveSysctls() error {
	saved := map[string]string{}
	for _, name := range sysctls {
		if value, err := os.ReadFile(filepath.Join("/proc/sys", name)); err == nil { // #nosec G304 -- constants
			saved[name] = string(value)
		}
	}
	content, err := json.Marshal(saved)
	if err != nil {
		return fmt.Errorf("save kernel settings: %w", err)
	}
	return writeSecret(p.path("sysctls.json"), content)
}

// restoreSysctls puts back what differs from the noted values.
func (p Place) restoreSysctls() error {
	content, err := os.ReadFile(p.path("sysctls.json"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("restore kernel settings: %w", err)
	}
	var saved map[string]string
	if json.Unmarshal(content, &saved) != nil {
		return nil // cut off by a kill before anything had started
	}
	for _, name := range sysctls {
		path := filepath.Join("/proc/sys", name)
		now, err := os.ReadFile(path) // #nosec G304 -- constants
		before, known := saved[name]
		if err != nil || !known || string(now) == before {
			continue
		}
		if err := os.WriteFile(path, []byte(before), 0o600); err != nil { // #nosec G306 -- procfs
			return fmt.Errorf("restore kernel setting %s: %w", name, err)
		}
	}
	return nil
}
