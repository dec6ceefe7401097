"""What all claims are tried with: a study that trains, keeps and goes on, its report, and fair comparison."""
