package importer

import (
	"fmt"

	"stepboard/models"
)

// onlyBad is how many bad lines a file may have before its first good one.
const onlyBad = 100

// lineCheck reports bad lines, ends the import of a file that has nothing else, and warns of
// ids that a spreadsheet has damaged. Not safe for concurrent use.
type lineCheck struct {
	report   Report
	expected string // what a file holds
	bads     int
	anyGood  bool
	warned   bool
}

func newLineCheck(report Report, expected string) *lineCheck {
	return &lineCheck{report: report, expected: expected}
}

// bad reports a bad line. Its error ends the import.
func (c *lineCheck) bad(number int, reason error) error {
	if err := c.report.BadLine(number, reason); err != nil {
		return err
	}
	if c.bads++; c.bads == onlyBad {
		return c.end()
	}
	return nil
}

// good notes the users of a line that is imported.
func (c *lineCheck) good(number int, users ...models.UserID) {
	c.anyGood = true
	for _, user := range users {
		if !c.warned && damagedID(user) {
			c.warned = true
			c.report.Warn(number, fmt.Sprintf("the id %s is what a spreadsheet makes of a long number, "+
				"and several people may have got the same one: export the file again, without opening it there", user))
		}
	}
}

// end returns an error if all lines so far were bad.
func (c *lineCheck) end() error {
	if c.anyGood || c.bads == 0 {
		return nil
	}
	return fmt.Errorf("all %d lines so far are bad: the file must have %s", c.bads, c.expected)
}
