// Package column takes a column of rows.
package column

// Of returns what of returns for each row, in their order.
func Of[Row, Value any](rows []Row, of func(Row) Value) []Value {
	values := make([]Value, len(rows))
	for i, row := range rows {
		values[i] = of(row)
	}
	return values
}
