package crash_test

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"stepboard/internal/testenv"
)

// traceCall is one line of strace, or two: between a call and its return other threads may call.
type traceCall struct {
	// begin and end are the numbers of the lines at which it was called and has returned.
	begin, end int
	name       string
	args       []string
	result     string
}

// never is the end of a call that has not returned.
const never = math.MaxInt

// traced are the calls that change a folder or answer a request. What else a process may change
// files with is among them, so that it is noticed.
const traced = "open,openat,openat2,creat,write,pwrite64,writev,pwritev,pwritev2,sendfile,copy_file_range,splice," +
	"truncate,ftruncate,fallocate,fsync,fdatasync,sync,syncfs,sync_file_range,msync," +
	"rename,renameat,renameat2,unlink,unlinkat,link,linkat,symlink,symlinkat"

// strace returns the command that records a process in a file, after what other processes have
// recorded there, with more options. The process is the one that is started, and strace its child. Files
// are not copied by the kernel, so that all that is written is in the trace.
func strace(trace string, options ...string) []string {
	return append([]string{"strace", "-D", "-f", "-q", "-A", "-y", "-xx", "-s", "4194304", "-o", trace, "-e", "signal=none", "-e", "trace=" + traced,
		"-e", "inject=copy_file_range:error=ENOSYS"}, options...)
}

// needStrace skips a test on a machine on which processes can't be traced.
func needStrace(t *testing.T) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "strace", "-D", "-o", os.DevNull, "true").CombinedOutput(); err != nil {
		testenv.NotChecked(t, fmt.Sprintf("strace: %v: %s", err, out))
	}
}

// readTrace reads what strace has recorded, in the order of the calls. Calls that have failed are left
// out, but for syncs.
func readTrace(t *testing.T, path string) (calls []*traceCall, lines int) {
	t.Helper()
	file := testenv.Must(os.Open(path))
	defer file.Close()
	running := make(map[string]*traceCall) // by thread
	for r := bufio.NewReaderSize(file, 1<<20); ; lines++ {
		line, err := r.ReadString('\n')
		if err != nil {
			return calls, lines
		}
		thread, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		text = strings.TrimLeft(text, " ")
		if strings.HasPrefix(text, "+++") {
			continue
		}
		if rest, ok := strings.CutPrefix(text, "<... "); ok {
			c := running[thread]
			_, rest, _ = strings.Cut(rest, " resumed>")
			c.end = lines
			c.ended(rest)
			continue
		}
		name, rest, _ := strings.Cut(text, "(")
		c := &traceCall{begin: lines, end: lines, name: name}
		calls = append(calls, c)
		if args, ok := strings.CutSuffix(rest, " <unfinished ...>"); ok {
			c.args = strings.Split(strings.TrimSuffix(args, ","), ", ")
			c.end = never
			running[thread] = c
			continue
		}
		args, _, _ := strings.Cut(rest, " = ")
		c.args = strings.Split(strings.TrimSuffix(strings.TrimRight(args, " "), ")"), ", ")
		c.ended(rest)
	}
}

// ended sets the result, from the text after the arguments.
func (c *traceCall) ended(text string) {
	_, after, _ := strings.Cut(text, "= ")
	c.result, _, _ = strings.Cut(after, " ")
}

// ok reports that a call has not failed, as far as is known.
func (c *traceCall) ok() bool { return !strings.HasPrefix(c.result, "-") && c.result != "?" }

// unhex returns a text in which strace has written strings as \x and two digits for each byte.
func unhex(text string) string {
	var decoded strings.Builder
	for text != "" {
		if rest, ok := strings.CutPrefix(text, `\x`); ok {
			decoded.Write(testenv.Must(hex.DecodeString(rest[:2])))
			text = rest[2:]
		} else {
			decoded.WriteByte(text[0])
			text = text[1:]
		}
	}
	return decoded.String()
}

// bytes returns an argument that is a string.
func (c *traceCall) bytes(n int) []byte {
	return testenv.Must(hex.DecodeString(strings.ReplaceAll(strings.Trim(c.args[n], `"`), `\x`, "")))
}

// number returns an argument that is a number.
func (c *traceCall) number(n int) int64 { return testenv.Must(strconv.ParseInt(c.args[n], 10, 64)) }

// path returns the path of an argument that is a string. It may be relative to the folder before it.
func (c *traceCall) path(n int) string {
	path := string(c.bytes(n))
	if n > 0 && !filepath.IsAbs(path) {
		path = filepath.Join(c.file(n-1), path)
	}
	return filepath.Clean(path)
}

// file returns the path of an argument that is a descriptor; "" if that has none.
func (c *traceCall) file(n int) string {
	_, path, _ := strings.Cut(c.args[n], "<")
	return unhex(strings.TrimSuffix(path, ">"))
}
