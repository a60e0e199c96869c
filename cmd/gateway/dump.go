package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kaen-log/gateway/storage/record"
)

// dumpFlags are the flags of dump.
type dumpFlags struct {
	deep  bool
	hex   bool
	limit int
}

func newDumpCommand() *cobra.Command {
	f := dumpFlags{}
	cmd := &cobra.Command{
		Use:   "dump PATH…",
		Short: "Print what is in the files of a log directory, and check it",
		Long: "Print the files of a log directory, of this server or of Apache Kafka: .log, .index,\n" +
			".timeindex, .txnindex, .snapshot, .checkpoint, leader-epoch-checkpoint,\n" +
			"*-offset-checkpoint, partition.metadata, meta.properties, .kafka_cleanshutdown, .reaches;\n" +
			"also those ending in .deleted, .cleaned or .swap, and the kept tails .log.torn-N. A PATH that\n" +
			"is a directory is printed with everything below it. Nothing is ever written.\n\n" +
			"Every checksum is computed, and indexes are held against the log beside them. Exits 1\n" +
			"when something is damaged, naming file and byte position; what can be read is printed\n" +
			"all the same.",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.limit < 0 {
				return &exitError{Code: exitUsage, Err: fmt.Errorf("--limit: got %d, want 0 (no limit) or more", f.limit)}
			}
			out := bufio.NewWriterSize(cmd.OutOrStdout(), 64<<10)
			d := newDumper(cmd.Context(), out, f)
			for _, path := range args {
				d.path(path)
			}
			return d.end()
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.deep, "deep", false, "print the records of each batch")
	flags.BoolVar(&f.hex, "hex", false, "print the bytes of each batch and small file, and those around damage")
	flags.IntVar(&f.limit, "limit", 1024, "bytes printed of one key, value or batch; 0 is all")
	return cmd
}

// dumper prints files of a log directory and collects what is wrong with them.
type dumper struct {
	ctx   context.Context
	out   *bufio.Writer
	flags dumpFlags
	// open opens a file for reading; what it returns is closed by close.
	open func(name string) (*dumpFile, error)

	reader  record.Reader
	scratch []byte

	file    *dumpFile // at hand
	lenient bool      // what is wrong with the file at hand is to be expected
	here    int       // faults of the file at hand

	files    int
	damaged  int      // places
	found    []damage // the first maxDamages of them
	failures []error  // files that could not be read or are of no known kind
	usage    bool     // the failures are the caller's fault
}

// damage is a place where bytes are not what they must be.
type damage struct {
	file     string
	position int64
	reason   string
}

func (g damage) String() string {
	return fmt.Sprintf("%s: position %d: %s", g.file, g.position, g.reason)
}

const (
	// maxDamages bounds what is listed again at the end.
	maxDamages = 20
	// maxFaultsPrinted bounds the lines about one file.
	maxFaultsPrinted = 20
)

// dumpFile is a file open for reading.
type dumpFile struct {
	name  string // as it is printed, with slashes
	topic string // of the partition directory it lies in; "" when there is none
	kind  fileKind
	r     io.ReaderAt
	size  int64
	close func()
}

func newDumper(ctx context.Context, out *bufio.Writer, f dumpFlags) *dumper {
	return &dumper{ctx: ctx, out: out, flags: f, open: openForDump}
}

// openForDump opens a file of the disk without ever writing to it.
func openForDump(name string) (*dumpFile, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	h, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	return &dumpFile{name: filepath.ToSlash(name), topic: topicOfDir(parentDir(name)), kind: kindOfFile(filepath.Base(name)),
		r: h, size: info.Size(), close: func() { _ = h.Close() }}, nil
}

// parentDir is the base name of the directory that a file lies in.
func parentDir(name string) string {
	if abs, err := filepath.Abs(name); err == nil {
		name = abs
	}
	return filepath.Base(filepath.Dir(name))
}

func (d *dumper) printf(format string, args ...any) { fmt.Fprintf(d.out, format, args...) }

// path prints a file or everything below a directory.
func (d *dumper) path(name string) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		d.failures = append(d.failures, err)
	case info.IsDir():
		d.directory(filepath.Clean(name))
	case kindOfFile(filepath.Base(name)).form == formUnknown:
		d.usage = true
		d.failures = append(d.failures, fmt.Errorf("%s is not named like a file of a log directory", name))
	default:
		d.one(name)
	}
}

// directory prints everything below a directory: first its files, segment by segment, then its directories by topic
// and partition.
func (d *dumper) directory(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		d.failures = append(d.failures, err)
		return
	}
	var files, dirs []string
	for _, e := range entries {
		if e.IsDir() {
			dirs = append(dirs, e.Name())
		} else {
			files = append(files, e.Name())
		}
	}
	slices.SortFunc(files, compareFiles)
	slices.SortFunc(dirs, comparePartitions)
	for _, name := range files {
		if d.ctx.Err() != nil {
			return
		}
		if kindOfFile(name).form == formUnknown {
			d.title(filepath.ToSlash(filepath.Join(dir, name)), "not named like a file of a log directory, passed over")
			continue
		}
		d.inDirectory(filepath.Join(dir, name), d.one)
	}
	for _, name := range dirs {
		d.inDirectory(filepath.Join(dir, name), d.directory)
	}
}

// inDirectory prints what a directory was seen to have. A server may have removed or renamed it since; then it is passed over.
func (d *dumper) inDirectory(name string, print func(string)) {
	n := len(d.failures)
	print(name)
	if len(d.failures) == n+1 && errors.Is(d.failures[n], fs.ErrNotExist) {
		if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
			d.failures = d.failures[:n]
		}
	}
}

// title begins the part about a file.
func (d *dumper) title(name, what string) {
	if d.files > 0 {
		d.printf("\n")
	}
	d.files++
	d.printf("%s: %s\n", name, what)
}

// one prints one file of a known kind.
func (d *dumper) one(name string) {
	f, err := d.open(name)
	if err != nil {
		d.failures = append(d.failures, err)
		return
	}
	defer f.close()
	d.file, d.here = f, 0
	d.lenient = f.kind.lenient
	d.title(f.name, fmt.Sprintf("%s, %s%s", f.kind.describe(), bytesText(f.size), f.kind.suffixText()))
	if err := d.contents(f); err != nil {
		d.printf("  cannot be read on: %v\n", err)
		d.failures = append(d.failures, fmt.Errorf("%s: %w", f.name, err))
	}
	if d.here > maxFaultsPrinted {
		d.printf("  and %d more\n", d.here-maxFaultsPrinted)
	}
}

// contents prints what is in a file. The error is one of reading or of ctx.
func (d *dumper) contents(f *dumpFile) error {
	switch f.kind.form {
	case formLog:
		return d.log(f)
	case formOffsetIndex:
		return d.offsetIndex(f)
	case formTimeIndex:
		return d.timeIndex(f)
	case formTxnIndex:
		return d.txnIndex(f)
	default:
		return d.small(f)
	}
}

// fault reports that the file at hand is damaged at position.
func (d *dumper) fault(position int64, format string, args ...any) {
	reason := fmt.Sprintf(format, args...)
	if d.here++; d.here <= maxFaultsPrinted {
		word := "DAMAGED"
		if d.lenient {
			word = "not whole"
		}
		d.printf("  %s at position %d: %s\n", word, position, reason)
		if d.flags.hex {
			d.hexAround(position)
		}
	}
	if d.lenient {
		return
	}
	d.damaged++
	if len(d.found) < maxDamages {
		d.found = append(d.found, damage{d.file.name, position, reason})
	}
}

// end prints the summary and returns what the command ends with.
func (d *dumper) end() error {
	if d.files > 1 {
		d.printf("\n%d files, %s\n", d.files, plural(d.damaged, "damaged place", "damaged places"))
		for _, g := range d.found {
			d.printf("  %s\n", g)
		}
		if more := d.damaged - len(d.found); more > 0 {
			d.printf("  and %d more\n", more)
		}
	}
	if err := d.out.Flush(); err != nil {
		return &exitError{Code: exitFailed, Err: fmt.Errorf("output: %w", err)}
	}
	failed := errors.Join(d.failures...)
	switch {
	case d.ctx.Err() != nil:
		return &exitError{Code: exitFailed, Err: errors.New("interrupted")}
	case d.damaged > 0:
		err := error(errors.New(d.found[0].String()))
		if d.damaged > 1 {
			err = fmt.Errorf("%w (and %s)", err, plural(d.damaged-1, "more place", "more places"))
		}
		return &exitError{Code: exitNo, Err: errors.Join(err, failed)}
	case failed != nil && d.usage:
		return &exitError{Code: exitUsage, Err: failed}
	case failed != nil:
		return &exitError{Code: exitFailed, Err: failed}
	}
	return nil
}

// form is how the bytes of a file are to be read.
type form int

const (
	formUnknown form = iota
	formLog
	formOffsetIndex
	formTimeIndex
	formTxnIndex
	formSnapshot
	formLeaderEpochs
	formOffsets
	formPartitionMetadata
	formMetaProperties
	formCleanShutdown
	formText
	formLock
	formReaches
)

// fileKind is what the name of a file says about it.
type fileKind struct {
	form    form
	name    string // for people
	base    int64  // offset in the name; -1 without one
	suffix  string // .deleted, .cleaned, .swap or .tmp at the end, or .torn-N
	lenient bool   // it may end anywhere: damage is said and not counted
}

// segmentForms are the files of a segment, in the order they are printed.
var segmentForms = []struct {
	suffix string
	form   form
	name   string
}{
	{".log", formLog, "log"},
	{".index", formOffsetIndex, "offset index"},
	{".timeindex", formTimeIndex, "time index"},
	{".txnindex", formTxnIndex, "transaction index"},
	{".snapshot", formSnapshot, "producer snapshot"},
	{".checkpoint", formLog, "metadata snapshot"},
}

// kindOfFile tells the kind of a file by its base name.
func kindOfFile(name string) fileKind {
	k := fileKind{base: -1}
	for _, s := range []string{".deleted", ".cleaned", ".swap", ".tmp"} {
		if rest, ok := strings.CutSuffix(name, s); ok {
			name, k.suffix = rest, s
			k.lenient = s == ".cleaned" || s == ".tmp"
			break
		}
	}
	if log, _, ok := strings.Cut(name, ".log.torn-"); ok && k.suffix == "" {
		k.suffix, k.lenient = name[len(log)+len(".log"):], true
		name = log + ".log"
	}
	k.form, k.name = formOfName(name)
	if len(name) > 20 && (name[20] == '.' || name[20] == '-') {
		if n, err := strconv.ParseUint(name[:20], 10, 63); err == nil {
			k.base = int64(n)
		}
	}
	if k.name == "metadata snapshot" {
		k.base = -1 // its name says where it was taken, not where it begins
	}
	return k
}

func formOfName(name string) (form, string) {
	switch name {
	case "leader-epoch-checkpoint":
		return formLeaderEpochs, "leader epochs"
	case "partition.metadata":
		return formPartitionMetadata, "partition metadata"
	case "meta.properties":
		return formMetaProperties, "directory properties"
	case ".kafka_cleanshutdown", "kafka_cleanshutdown":
		return formCleanShutdown, "clean shutdown marker"
	case "quorum-state":
		return formText, "quorum state"
	case ".lock":
		return formLock, "lock"
	}
	if strings.HasSuffix(name, "-offset-checkpoint") {
		return formOffsets, "offset checkpoint"
	}
	if strings.HasSuffix(name, ".reaches") {
		return formReaches, "note of how far a compacted segment reaches"
	}
	for _, s := range segmentForms {
		if strings.HasSuffix(name, s.suffix) {
			return s.form, s.name
		}
	}
	return formUnknown, ""
}

func (k fileKind) describe() string {
	if strings.HasPrefix(k.suffix, ".torn-") {
		return "tail cut off a log"
	}
	return k.name
}

func (k fileKind) suffixText() string {
	var b strings.Builder
	if k.base >= 0 {
		fmt.Fprintf(&b, ", base offset %d", k.base)
	}
	switch k.suffix {
	case ".deleted":
		b.WriteString(", about to be deleted")
	case ".cleaned":
		b.WriteString(", of a compaction that did not end")
	case ".swap":
		b.WriteString(", of a compaction, to replace what it was made from")
	case ".tmp":
		b.WriteString(", left over from writing it")
	}
	return b.String()
}

// segmentRank orders the files of a segment.
func segmentRank(name string) int {
	for i, s := range segmentForms {
		if at := strings.Index(name, s.suffix); at > 0 {
			return i
		}
	}
	return len(segmentForms)
}

// compareFiles puts the files that are no segment's first, then segments by offset, log before indexes.
func compareFiles(a, b string) int {
	segment := func(name string) string {
		if k := kindOfFile(name); k.base < 0 && k.name != "metadata snapshot" {
			return ""
		}
		return name[:min(20, len(name))]
	}
	return cmp.Or(cmp.Compare(segment(a), segment(b)), cmp.Compare(segmentRank(a), segmentRank(b)), cmp.Compare(a, b))
}

// comparePartitions puts t-2 before t-10.
func comparePartitions(a, b string) int {
	split := func(name string) (string, int) {
		if at := strings.LastIndexByte(name, '-'); at >= 0 {
			if n, err := strconv.Atoi(name[at+1:]); err == nil {
				return name[:at], n
			}
		}
		return name, -1
	}
	topicA, na := split(a)
	topicB, nb := split(b)
	return cmp.Or(cmp.Compare(topicA, topicB), cmp.Compare(na, nb), cmp.Compare(a, b))
}

// topicOfDir is the topic of a partition directory's base name, "" for another directory.
func topicOfDir(dir string) string {
	if at := strings.LastIndexByte(dir, '-'); at > 0 {
		if _, err := strconv.ParseUint(dir[at+1:], 10, 31); err == nil {
			return dir[:at]
		}
	}
	return ""
}
