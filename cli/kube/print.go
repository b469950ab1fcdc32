package kube

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// The formats of -o that are no format of an object, and the one that is none of a list.
const (
	formatName  = "name"
	formatTable = ""
	formatWide  = "wide"
)

// Output is the flag -o of a command: a table for people, or objects in a format of kubectl's.
type Output struct {
	flags  *genericclioptions.PrintFlags
	table  bool
	widths []int // of the columns so far, so that later rows stand under earlier ones
}

// NewOutput is the flag of a command that prints objects; with a table the command can show them to people, too, and has -o wide.
func NewOutput(table bool) *Output {
	return &Output{flags: genericclioptions.NewPrintFlags(""), table: table}
}

// Bind adds -o and what goes with it.
func (o *Output) Bind(c *cobra.Command) {
	o.flags.AddFlags(c)
	formats := o.flags.AllowedFormats()
	if o.table {
		formats = append([]string{formatWide}, formats...)
	}
	c.Flags().Lookup("output").Usage = "json, yaml, name" + map[bool]string{true: ", wide"}[o.table] + ", or another of kubectl's formats (jsonpath=…, go-template=…)"
	for _, rare := range []string{"template", "allow-missing-template-keys", "show-managed-fields"} {
		if f := c.Flags().Lookup(rare); f != nil {
			f.Hidden = true
		}
	}
	must(c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(slices.Clone(formats), cobra.ShellCompDirectiveNoFileComp)))
}

// must is for what fails only when the program itself is wrong.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// Table tells whether people are to be shown a table, and whether a wide one.
func (o *Output) Table() (table, wide bool) {
	format := *o.flags.OutputFormat
	return o.table && (format == formatTable && *o.flags.TemplatePrinterFlags.TemplateArgument == "" || format == formatWide), format == formatWide
}

// Asked tells whether -o was given.
func (o *Output) Asked() bool {
	return *o.flags.OutputFormat != formatTable || *o.flags.TemplatePrinterFlags.TemplateArgument != ""
}

// Check finds a format that there is none of, before anything is done.
func (o *Output) Check() error {
	if table, _ := o.Table(); table || !o.Asked() {
		return nil
	}
	if _, err := o.flags.ToPrinter(); err != nil {
		return Usage("-o: %w", err)
	}
	return nil
}

// Object prints an object, or a list of them, in the format that was asked for.
func (o *Output) Object(env *Env, object runtime.Object) error {
	printer, err := o.flags.ToPrinter()
	if err != nil {
		return Usage("-o: %w", err)
	}
	if err := typed(object); err != nil {
		return err
	}
	out := &checked{to: ForPeople(env.Out)}
	print := func(o runtime.Object) error { return cmp.Or(printer.PrintObj(o, out), out.failed) }
	if *o.flags.OutputFormat == formatName && meta.IsListType(object) {
		return meta.EachListItem(object, print)
	}
	return print(object)
}

// checked remembers what went wrong with writing, which some printers do not look at (-o name).
type checked struct {
	to     io.Writer
	failed error
}

func (c *checked) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.failed = cmp.Or(c.failed, err)
	return n, err
}

// typed writes kind and version into an object and, of a list, into each: a client leaves them out.
func typed(object runtime.Object) error {
	kind, err := apiutil.GVKForObject(object, Scheme)
	if err != nil {
		return fmt.Errorf("print: %w", err)
	}
	object.GetObjectKind().SetGroupVersionKind(kind)
	if !meta.IsListType(object) {
		return nil
	}
	return meta.EachListItem(object, typed)
}

// Rows prints a table for people: nothing in it commands a terminal, and each row is a line.
func (o *Output) Rows(env *Env, headers bool, table *metav1.Table) error {
	_, wide := o.Table()
	for _, row := range table.Rows {
		for i, cell := range row.Cells {
			if text, ok := cell.(string); ok {
				row.Cells[i] = Line(text)
			}
		}
	}
	w := printers.GetNewTabWriter(env.Out).SetRememberedWidths(o.widths)
	if err := printers.NewTablePrinter(printers.PrintOptions{NoHeaders: !headers, Wide: wide}).PrintObj(table, w); err != nil {
		return err
	}
	err := w.Flush()
	o.widths = w.RememberedWidths()
	return err
}

// Column is a column of a table; a wide one is shown with -o wide only.
func Column(name string, wide bool) metav1.TableColumnDefinition {
	c := metav1.TableColumnDefinition{Name: strings.ToUpper(name[:1]) + name[1:], Type: "string"}
	if wide {
		c.Priority = 1
	}
	return c
}
