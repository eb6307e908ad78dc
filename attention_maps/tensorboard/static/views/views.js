/** The views: what they are called, and where they are loaded from when they are first shown. */

import {KIND_NAMES} from '../core/frame.js';

/**
 * Name of a view in the state -> {title of its tab, hint, load: a promise of its module}. The module exports create(context), which returns
 * {element, controls, draw(frame)} and, if the view has them, svg(frame), zoom(by), pharaoh().
 *
 * Also: `forms` and `form`: in a tab of two views, the label of the switch between them, and the text of its button; `term`: of the glossary;
 * `shows`: the title for a frame, unless it is that of the map; `ofRun`: it shows the whole run; `compares: false`: not with another step or
 * run; `tells`: it says itself what it shows, with context.tell.
 */
export const VIEWS = {
  story: {
    title: 'Story',
    hint: 'What the training did: the loss, and what each head attends to at each recorded step.',
    load: () => import('./story/story.js'),
    term: 'since',
    ofRun: true,
    compares: false, // there is no map of one step in it
    tells: true,
  },
  map: {
    title: 'Map',
    hint: 'Zoom with the wheel or + and −, drag to pan, click a cell to select its row, or the label of a column.',
    load: () => import('./map/heat_map.js'),
    forms: 'drawn as',
    form: 'cells',
  },
  lines: {
    hint: 'Lines from each query to its most attended keys: the wider and darker the line, the larger the weight.',
    load: () => import('./lines/lines.js'),
    form: 'lines',
  },
  sentence: {
    title: 'Sentence',
    hint: 'Click a token: the tokens that it attends to are shaded. Arrow keys move from token to token.',
    load: () => import('./sentence/sentence.js'),
  },
  pair: {
    title: 'Pair',
    hint: 'Choose two words: all heads, ranked by the attention from the first to the second, with its rivals and its course.',
    load: () => import('./pair/pair.js'),
    term: 'since',
    compares: false,
    shows: ({kind}) => `${KIND_NAMES[kind]} · all heads, from one word to another`,
    tells: true,
  },
  prediction: {
    title: 'Prediction',
    hint: 'Which heads and MLPs make the model predict a token, and what each layer would predict.',
    load: () => import('./prediction/prediction.js'),
    forms: 'from',
    form: 'this text',
    term: 'contribution',
    compares: false, // its bars are of one recording
    shows: () => 'next token · all parts of the model',
    tells: true,
  },
  circuits: {
    hint: 'Without any text, from the weights alone: which tokens the head lets attend to which, and which next tokens it then makes likely.',
    load: () => import('./circuits/circuits.js'),
    form: 'the weights alone',
    term: 'QK, OV circuit',
    compares: false,
    tells: true,
  },
  ask: {
    title: 'Ask',
    hint: 'Your own text: what the model predicts, also without some of its heads.',
    load: () => import('./ask/ask.js'),
    term: 'ablation',
    tells: true,
  },
  alignment: {
    title: 'Alignment',
    hint: 'Word alignment extracted from the attention weights, compared with gold links if the recording has any.',
    load: () => import('./alignment/alignment.js'),
    term: 'mutual, grown',
    tells: true,
  },
  curves: {
    title: 'Curves',
    hint: 'Each line is a head. Click to go to that step.',
    load: () => import('./curves/curves.js'),
    term: 'score',
    compares: false,
    tells: true,
  },
};

/** The names of the views of each tab, from left to right; between those of one tab, a switch beside the title chooses. */
export const TABS = [['story'], ['map', 'lines'], ['sentence'], ['pair'], ['prediction', 'circuits'], ['ask'], ['alignment'], ['curves']];
