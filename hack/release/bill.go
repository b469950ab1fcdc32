package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

const (
	module = "github.com/hearthdev/hearth"
	// ours is the licence of everything in this repository.
	ours = "Apache-2.0"
	// uuidVersion marks a UUID that was made in a way of our own (RFC 9562, version 8): here from what it names.
	uuidVersion, uuidVariant = 0x80, 0x80
)

// billOf is the bill of materials of a program: what the compiler wrote into it, with the licences that were found.
func billOf(s source, p program, binary string, notices []notice) (*cdx.BOM, error) {
	sum, err := sumOf(binary)
	if err != nil {
		return nil, err
	}
	main, parts, err := programParts(s, p, binary, sum, notices)
	if err != nil {
		return nil, err
	}
	return newBill(s, main, parts, sum), nil
}

// newBill is a bill for one thing and its parts. Its serial number comes from the thing, so that the same thing has the same bill.
func newBill(s source, main cdx.Component, parts []cdx.Component, sum string) *cdx.BOM {
	slices.SortFunc(parts, func(a, b cdx.Component) int { return strings.Compare(a.BOMRef, b.BOMRef) })
	parts = slices.CompactFunc(parts, func(a, b cdx.Component) bool { return a.BOMRef == b.BOMRef })
	refs := make([]string, 0, len(parts))
	for _, part := range parts {
		refs = append(refs, part.BOMRef)
	}
	bill := cdx.NewBOM()
	bill.SpecVersion, bill.JSONSchema = cdx.SpecVersion1_6, "http://cyclonedx.org/schema/bom-1.6.schema.json"
	bill.SerialNumber = serial(main.Name + " " + main.Version + " " + sum)
	bill.Metadata = &cdx.Metadata{Timestamp: s.created.Format(time.RFC3339), Component: &main}
	bill.Components = &parts
	bill.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &refs}}
	return bill
}

func serial(of string) string {
	h := sha256.Sum256([]byte(of))
	h[6], h[8] = h[6]&0x0f|uuidVersion, h[8]&0x3f|uuidVariant
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", h[:4], h[4:6], h[6:8], h[8:10], h[10:16])
}

// programParts are a program and the modules linked into it.
func programParts(s source, p program, binary, sum string, notices []notice) (cdx.Component, []cdx.Component, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return cdx.Component{}, nil, err
	}
	licences := map[string][]string{}
	for _, n := range notices {
		licences[n.Path+"@"+n.Version] = n.Licences
	}
	main := cdx.Component{
		Type: cdx.ComponentTypeApplication, Name: p.archive, Version: s.version,
		PackageURL: "pkg:golang/" + module + "@" + s.version + "#" + strings.TrimPrefix(p.pkg, "./"),
		Hashes:     &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: sum}}, Licenses: licencesOf([]string{ours}),
		Properties: &[]cdx.Property{{Name: "vcs.revision", Value: s.revision}},
	}
	main.BOMRef = main.PackageURL
	parts := []cdx.Component{{
		BOMRef: "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go"), Type: cdx.ComponentTypeLibrary, Name: "std",
		Version: info.GoVersion, PackageURL: "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go"), Licenses: licencesOf(licences["std@"]),
	}}
	for _, dep := range info.Deps {
		if dep.Replace != nil {
			dep = dep.Replace
		}
		found, ok := licences[dep.Path+"@"+dep.Version]
		if !ok {
			return cdx.Component{}, nil, fmt.Errorf("%s@%s is linked, and hack/licences does not know it", dep.Path, dep.Version)
		}
		url := "pkg:golang/" + dep.Path + "@" + strings.ReplaceAll(dep.Version, "+", "%2B")
		parts = append(parts, cdx.Component{
			BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: dep.Path, Version: dep.Version, PackageURL: url,
			Licenses: licencesOf(found), Properties: &[]cdx.Property{{Name: "go.sum", Value: dep.Sum}},
		})
	}
	return main, parts, nil
}

func licencesOf(ids []string) *cdx.Licenses {
	all := make(cdx.Licenses, 0, len(ids))
	for _, id := range ids {
		all = append(all, cdx.LicenseChoice{License: &cdx.License{ID: id}})
	}
	return &all
}

func writeBill(name string, bill *cdx.BOM) error {
	return writeFile(name, func(w io.Writer) error {
		return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false).Encode(bill)
	})
}

// programAt is the program that an image has as a file of that name.
func programAt(file string) (program, bool) {
	i := slices.IndexFunc(released, func(p program) bool { return p.name == path.Base(file) })
	if i < 0 {
		return program{}, false
	}
	return released[i], true
}
