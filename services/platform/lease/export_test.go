package lease

// Key is the SQL expression of a lease's advisory lock; $1 is its name.
const Key = key

// NewPostgresWith is NewPostgres with other intervals.
var NewPostgresWith = newPostgres
