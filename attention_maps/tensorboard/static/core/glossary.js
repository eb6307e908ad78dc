/** The terms of the page, each explained in one line; measures of heads are explained in measures.js. */

/** The mark of a head in the view Ask without which all words become harder to predict. */
export const HURTS = 'hurts the whole text';

/** Group -> term -> explanation. Labels of heads are named as they are shown. */
export const GLOSSARY = {
  'The map': {
    attention: 'how much a head takes from each token (columns) for the token that it computes (row); the weights of a row sum to 1',
    head: 'one attention function of a layer, with its own weights; a layer has several, which work side by side',
    'mean, max': 'mean and largest weight over the heads of a layer',
    rollout: 'attention across all layers: mean maps, averaged with the identity and multiplied (Abnar & Zuidema 2020); a heuristic',
    'reads, predicts': 'a row belongs to two tokens: the one that the model reads there, and the next one, which it predicts',
    'special tokens': 'bos, eos and similar tokens that belong to no word; they often get attention that is not needed elsewhere',
    'strongest colour': 'the weight with the darkest colour: the maximum of the map, or 1, which makes maps comparable',
    gamma: 'exponent of the colour scale: below 1, small weights are easier to see',
    'value norms': 'each weight times the norm of its value vector: how much a token really adds to the output of the head',
  },
  'The list of heads': {
    outline: 'the border of a picture: the stronger, the better the head ranks by the measure in the list above',
    'by score': 'pictures are sorted by this measure, the best head first',
    score: 'agreement with gold labels on many validation examples, beside baselines that use no model',
    gold: 'known to be right: the word alignments and antecedents of the built-in corpus, or marks in a probe, she{Emi}',
    ablation:
      'taking a head out of the model: its output is replaced by zero, or by its mean over the examples; what then becomes worse needs the head',
    [HURTS]:
      'in Ask: without this head the loss of the other words rises by 0.1 nats or more on average, so it does not serve the chosen word alone',
    'coref+': 'a plus after a label in the list of heads: the head has a second one; the pointer on its picture shows both in full',
  },
  'Labels of heads': {
    coreference:
      'coref: attends from a pronoun to the noun that it stands for, its antecedent; for at least 50 % of the validation pronouns more than to ' +
      'any other noun before',
    alignment:
      'align: attends to the source words that a target word translates; alignment error at most 50 % on validation pairs, or, without gold ' +
      'labels, source coverage at least 50 %, spread at most 50 % and at most 30 % to special tokens',
    induction:
      'induct: attends to the token after an earlier occurrence of the same token, and so continues a repetition; at least 50 % of the ' +
      'attention, in repeated random words',
    'duplicate token':
      'dupl: attends to an earlier occurrence of the same token; at least 50 % of the attention, in repeated random words',
    'previous token': 'prev: attends to the token before; at least 50 % of the attention, in the recorded examples',
    'first token': 'first: attends to the first token, often because nothing else is needed; at least 50 % of the attention',
    diagonal: 'diag: attends to the token itself; at least 50 % of the attention',
    uniform: 'unif: attends to all tokens alike, as every head does before training; spread at least 80 %, and no other label',
  },
  'The views': {
    finding:
      'the word and the head with which the tab opens: the last pronoun, or the word whose prediction changes most from the first layer to the ' +
      'last; and the head with the best score against gold labels, else the one that attends most from the word to its gold label, else the one ' +
      'that adds most to its logit',
    since:
      'from that recorded step to the last one, single dips aside, above half: in Story the head has the label, which stands for half of its ' +
      'attention or of the gold labels (see above); in Pair its weight is at least half of the last one',
    'logit lens': 'what each layer would predict if it were the last one',
    contribution: 'what a head or an MLP adds to the logit of a token; the contributions of all parts add up to the logit',
    logit: 'the score of a token before the softmax turns scores into probabilities',
    'QK, OV circuit': 'from the weights alone: which tokens a head lets attend to which, and whose logits it then raises (Elhage et al. 2021)',
    strength: 'norm of the output of a head at a token: how much it changes what the model computes there',
    'mutual, grown': 'word links that are the strongest of both row and column; grown adds adjacent ones (Koehn et al. 2003)',
    AER: 'alignment error rate: 0 % if all word links are the gold ones (Och & Ney 2003)',
    Pharaoh: 'the standard text format of word alignments: 0-0 1-3 links source word 1 to target word 3',
    'loss, nats': 'the negative natural logarithm of the probability of the actual next token; 0 is certainty',
  },
};

/** The explanation of a term, '' if it is none. */
export function meaningOf(term) {
  return Object.values(GLOSSARY).find((terms) => Object.hasOwn(terms, term))?.[term] ?? '';
}
