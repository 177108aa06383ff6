"""What all pages of ours are made with: templates, the style that they share, and round figures for charts."""
