package e2e_test

import (
	"archive/zip"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"stepboard/internal/testenv"
)

// writeZip writes an archive of JSON files.
func writeZip(t *testing.T, path string, files map[string]any) {
	t.Helper()
	f := testenv.Must(os.Create(path))
	w := zip.NewWriter(f)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := json.NewEncoder(testenv.Must(w.Create(name))).Encode(files[name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// The archives that people download are refused with a command that imports them: Fitbit's minutes as days of the
// person's zone, also of the day on which its clocks change, and Garmin's days as they are.
func TestExportsOfWatches(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if err := os.Symlink(testenv.Binary(), filepath.Join(folder, "stepboard")); err != nil {
		t.Fatal(err)
	}
	shell := testenv.StartShell(t, folder, append(ownEnvironment(), "STEPBOARD_DATA__DIR=data", "PATH="+folder+":"+os.Getenv("PATH")))
	type minute struct {
		DateTime string `json:"dateTime"`
		Value    string `json:"value"`
	}
	minutes := func(from time.Time, hours int) (list []minute) {
		for n := range 60 * hours {
			list = append(list, minute{from.Add(time.Duration(n) * time.Minute).Format("01/02/06 15:04:05"), strconv.Itoa(n % 2)})
		}
		return list
	}
	// Two days in Berlin, of 24 hours and, as clocks go back, of 25.
	writeZip(t, filepath.Join(folder, "takeout.zip"), map[string]any{
		"Takeout/Fitbit/Global Export Data/steps-2026-10-24.json": minutes(time.Date(2026, 10, 23, 22, 0, 0, 0, time.UTC), 24),
		"Takeout/Fitbit/Global Export Data/steps-2026-10-25.json": minutes(time.Date(2026, 10, 24, 22, 0, 0, 0, time.UTC), 25),
		"Takeout/Fitbit/Global Export Data/sleep-2026-10-25.json": []string{},
	})
	type day struct {
		Date  string `json:"calendarDate"`
		Steps int    `json:"totalSteps,omitempty"`
	}
	writeZip(t, filepath.Join(folder, "garmin.zip"), map[string]any{
		"DI_CONNECT/DI-Connect-Aggregator/UDSFile_2026-08-01_2026-11-09.json": []day{{"2026-10-01", 8050}, {Date: "2026-10-02"}},
		"DI_CONNECT/DI-Connect-Aggregator/UDSFile_2026-11-09_2027-02-17.json": []day{{"2026-10-03", 99}},
	})
	for file, want := range map[string]string{
		"takeout.zip": "\"date\",\"steps\"\n\"2026-10-24\",720\n\"2026-10-25\",750\n",
		"garmin.zip":  "\"date\",\"steps\"\n\"2026-10-01\",8050\n\"2026-10-03\",99\n",
	} {
		if _, status := shell.Do("stepboard import steps " + file + " --user 7"); status == 0 {
			t.Errorf("%s is imported as it is", file)
		}
		found := regexp.MustCompile(`import it by (unzip -p ` + file + `.*?) \| (stepboard import steps - --user )ID`).FindStringSubmatch(shell.Stderr())
		if found == nil {
			t.Fatalf("%s is refused without a command: %s", file, shell.Stderr())
		}
		if made, status := shell.Do(found[1]); status != 0 || made != want {
			t.Errorf("%s: status %d, %q, want %q", file, status, made, want)
		}
		if said, status := shell.Do(found[1] + " | " + found[2] + "7"); status != 0 || !strings.Contains(said, "2 lines, 2 totals raised") {
			t.Errorf("%s: status %d, %s%s", file, status, said, shell.Stderr())
		}
	}
}
