//go:build faults

package faults_test

import (
	"os"
	"testing"

	"github.com/hearthdev/hearth/test/faults/rig"
)

func TestMain(m *testing.M) {
	rig.AdmissionSpans = admissionSpans()
	os.Exit(rig.Main(m))
}
