package importer

import (
	"fmt"

	"stepboard/models"
)

// onlyBad is how many bad lines a file may have before its first good one.
const onlyBad = 100

// lineCheck reports bad lines, ends the import of a file that has nothing else, and warns of
// ids that another program has damaged. Not safe for concurrent use.
type lineCheck struct {
	report   Report
	expected string // what a file holds
	bads     int
	anyGood  bool
	// damaged has the first id that another program has damaged, in line damagedAt; damagedIDs counts them.
	damaged    models.UserID
	damagedAt  int
	damagedIDs int
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
		return c.allBad()
	}
	return nil
}

// good notes the users of a line that is imported.
func (c *lineCheck) good(number int, users ...models.UserID) {
	c.anyGood = true
	for _, user := range users {
		if !damagedID(user) {
			continue
		}
		if c.damagedIDs++; c.damagedIDs == 1 {
			c.damaged, c.damagedAt = user, number
		}
	}
}

// end is called behind the last line. It warns of damaged ids, and returns an error if all lines
// were bad.
func (c *lineCheck) end() error {
	if c.damagedIDs > 0 {
		c.report.Warn(c.damagedAt, fmt.Sprintf("a spreadsheet or a data frame has made the id %s of a number; %d ids are like it, "+
			"and several people may have got the same one: export the file again, with ids as text", c.damaged, c.damagedIDs))
	}
	return c.allBad()
}

// allBad returns an error if all lines so far were bad.
func (c *lineCheck) allBad() error {
	if c.anyGood || c.bads == 0 {
		return nil
	}
	return fmt.Errorf("all %d lines so far are bad: the file must have %s", c.bads, c.expected)
}
