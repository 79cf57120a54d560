package main

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"time"

	mssql "github.com/microsoft/go-mssqldb"
)

// Row is a row in canonical text; nil stands for NULL.
type Row []*string

// Querier is a pool, a connection of it, a transaction.
type Querier interface {
	QueryContext(ctx context.Context, query string, arguments ...any) (*sql.Rows, error)
}

// canonical renders a value as expected.json asks for it.
func canonical(value any, column *sql.ColumnType, digits int) (*string, error) {
	text := ""
	switch typed := value.(type) {
	case nil:
		return nil, nil
	case bool:
		text = "0"
		if typed {
			text = "1"
		}
	case int64:
		text = strconv.FormatInt(typed, 10)
	case float64:
		text = strconv.FormatFloat(typed, 'g', -1, 64)
	case string:
		text = typed
	case time.Time:
		text = clock(typed, column.DatabaseTypeName(), digits)
	case []byte:
		switch column.DatabaseTypeName() {
		case "DECIMAL", "MONEY", "SMALLMONEY":
			text = string(typed)
		case "UNIQUEIDENTIFIER":
			var id mssql.UniqueIdentifier
			if err := id.Scan(typed); err != nil {
				return nil, err
			}
			text = id.String()
		default:
			text = "0x" + strings.ToUpper(fmt.Sprintf("%x", typed))
		}
	default:
		return nil, fmt.Errorf("%s came as %T", column.Name(), value)
	}
	return &text, nil
}

func clock(value time.Time, kind string, digits int) string {
	fraction := ""
	if digits > 0 {
		fraction = "." + strings.Repeat("0", digits)
	}
	switch kind {
	case "DATE":
		return value.Format("2006-01-02")
	case "TIME":
		return value.Format("15:04:05" + fraction)
	case "DATETIMEOFFSET":
		return value.Format("2006-01-02T15:04:05" + fraction + "-07:00")
	case "DATETIME": // counts 1/300 s
		value = value.Round(time.Millisecond)
	}
	return value.Format("2006-01-02T15:04:05" + fraction)
}

// set reads what is left of one result set; digits is by column, or nil.
func set(rows *sql.Rows, digits []int) ([]Row, error) {
	types, err := rows.ColumnTypes()
	if err != nil {
		return nil, err
	}
	result := []Row{}
	values, targets := make([]any, len(types)), make([]any, len(types))
	for place := range values {
		targets[place] = &values[place]
	}
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return nil, err
		}
		row := make(Row, len(values))
		for place, value := range values {
			count := 0
			if digits != nil {
				count = digits[place]
			}
			if row[place], err = canonical(value, types[place], count); err != nil {
				return nil, err
			}
		}
		result = append(result, row)
	}
	return result, rows.Err()
}

// fetch runs a query and reads its one result set.
func fetch(from Querier, query string, arguments ...any) ([]Row, error) {
	rows, err := from.QueryContext(context.Background(), query, arguments...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	return set(rows, nil)
}
