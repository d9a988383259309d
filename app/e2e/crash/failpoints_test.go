package crash_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stepboard/internal/testenv"
)

// Some test of this folder walks through the steps of each subject, so that no step that the
// source names is left out.
func TestEachSubjectOfStepsHasATest(t *testing.T) {
	t.Parallel()
	var tests strings.Builder
	for _, name := range testenv.Must(filepath.Glob("*_test.go")) {
		tests.Write(testenv.Must(os.ReadFile(name)))
	}
	for _, subject := range testenv.FailpointSubjects(t) {
		if !strings.Contains(tests.String(), `testenv.Failpoints(t, "`+subject+`")`) {
			t.Errorf("no test kills a process at the steps of %s", subject)
		}
	}
}
