package cursor

import "gorm.io/gorm"

// Newest reads a page of a list that is ordered by descending id: those of the query's rows,
// at most limit, whose ids are below before; 0 begins at the newest. column is that of the ids.
func Newest[Row any](query *gorm.DB, column string, before int64, limit int) (page []Row, err error) {
	if before != 0 {
		query = query.Where(column+" < ?", before)
	}
	err = query.Order(column + " DESC").Limit(limit).Find(&page).Error
	return page, err
}
