package main

import (
	"cmp"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/hearthdev/hearth/controller/page"
)

// pageFlags are those of the status page.
func pageFlags(set *flag.FlagSet, o *options) {
	set.Func("page-bind-address", "host:port of the status page, such as 127.0.0.1:8090 for kubectl port-forward alone; it has no login. Empty for no page (config/page)", func(v string) error {
		if v != "" && !isHostPort(v) {
			return fmt.Errorf("expected host:port such as 127.0.0.1:8090, or nothing for no page; %.63q is none", v)
		}
		o.page = v
		return nil
	})
	set.Func("page-hosts", "names, separated by commas, that the status page may be asked for by beside localhost and the loopback addresses: those of a proxy in front of it", func(v string) error {
		o.pageHosts = nil
		for name := range strings.SplitSeq(v, ",") {
			name = strings.ToLower(name)
			if v != "" && len(validation.IsDNS1123Subdomain(name)) > 0 {
				return fmt.Errorf("expected names of hosts without a port and with a comma between them, %.63q is none", name)
			}
			if v != "" {
				o.pageHosts = append(o.pageHosts, name)
			}
		}
		return nil
	})
}

func isHostPort(address string) bool {
	_, port, err := net.SplitHostPort(address)
	n, parseErr := strconv.ParseUint(port, 10, 16)
	return err == nil && parseErr == nil && n > 0
}

// servePage adds the status page, where one is wanted.
func servePage(mgr manager.Manager, o options, log *slog.Logger) error {
	if o.page == "" {
		return nil
	}
	host, err := os.Hostname() // a Pod's is its name
	if err != nil {
		log.Warn("this machine has no name for the status page", "error", err)
	}
	return page.SetupWithManager(mgr, page.Options{Address: o.page, Hosts: o.pageHosts, Replica: cmp.Or(host, "without a name"), Now: time.Now, Log: log})
}
